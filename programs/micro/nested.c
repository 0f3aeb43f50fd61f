/* An inner lock in common.
 * real: none */
#include "micro.h"

int x;
pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER, n = PTHREAD_MUTEX_INITIALIZER;

static void *a(void *unused)
{
    pthread_mutex_lock(&m);
    LOCKED(n, x++);
    pthread_mutex_unlock(&m);
    return unused;
}

static void *b(void *unused)
{
    LOCKED(n, x++);
    return unused;
}

int main(void)
{
    SIDE_BY_SIDE(a, b);
    return 0;
}
