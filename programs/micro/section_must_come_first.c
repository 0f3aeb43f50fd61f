/* One access is in the critical section, the other after one: they must change places to meet.
 * real: race x */
#include "micro.h"

int x, z;
pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;

static void *a(void *unused)
{
    LOCKED(m, x = 1);
    return unused;
}

static void *b(void *unused)
{
    LOCKED(m, z = 1);
    x = 2;
    return unused;
}

int main(void)
{
    SIDE_BY_SIDE(a, b);
    return 0;
}
