/* Many rounds under the lock, and one access outside of it.
 * real: race y */
#include "micro.h"

int x, y;
pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;

static void *a(void *unused)
{
    y = 1;
    for (int i = 0; i < 20; i++)
        LOCKED(m, x++);
    return unused;
}

static void *b(void *unused)
{
    for (int i = 0; i < 20; i++)
        LOCKED(m, x++);
    y = 2;
    return unused;
}

int main(void)
{
    SIDE_BY_SIDE(a, b);
    return 0;
}
