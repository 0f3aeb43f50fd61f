/* The inner lock is free again when the access comes.
 * real: race x */
#include "micro.h"

int x, y;
pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER, n = PTHREAD_MUTEX_INITIALIZER;

static void *a(void *unused)
{
    pthread_mutex_lock(&m);
    LOCKED(n, y++);
    x = 1;
    pthread_mutex_unlock(&m);
    return unused;
}

static void *b(void *unused)
{
    LOCKED(n, x = 2);
    return unused;
}

int main(void)
{
    SIDE_BY_SIDE(a, b);
    return 0;
}
