/* The order of critical sections hides the race: the paper's listing 1.
 * real: race y */
#include "micro.h"

int x, y;
pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;

static void *a(void *unused)
{
    y = 1;
    LOCKED(m, x++);
    return unused;
}

static void *b(void *unused)
{
    LOCKED(m, x++);
    y = 2;
    return unused;
}

int main(void)
{
    SIDE_BY_SIDE(a, b);
    return 0;
}
