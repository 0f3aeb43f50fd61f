/* Looked at without the lock first.
 * real: race instance */
#include "micro.h"

int *instance, object, x;
pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;

static int *get(void)
{
    if (!instance) {
        pthread_mutex_lock(&m);
        if (!instance)
            instance = &object;
        pthread_mutex_unlock(&m);
    }
    return instance;
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
