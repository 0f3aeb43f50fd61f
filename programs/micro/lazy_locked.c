/* Always under the lock.
 * real: none */
#include "micro.h"

int *instance, object;
pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;

static int *get(void)
{
    pthread_mutex_lock(&m);
    if (!instance)
        instance = &object;
    int *it = instance;
    pthread_mutex_unlock(&m);
    return it;
}

static void *a(void *unused)
{
    get();
    return unused;
}

static void *b(void *unused)
{
    get();
    return unused;
}

int main(void)
{
    SIDE_BY_SIDE(a, b);
    return 0;
}
