/* Both hold the lock.
 * real: none */
#include "micro.h"

int x;
pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;

static void *a(void *unused)
{
    LOCKED(m, x++);
    return unused;
}

static void *b(void *unused)
{
    LOCKED(m, x++);
    return unused;
}

int main(void)
{
    SIDE_BY_SIDE(a, b);
    return 0;
}
