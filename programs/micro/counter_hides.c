/* The order of counting hides the race.
 * real: race y */
#include "micro.h"

int y;
atomic_int x;

static void *a(void *unused)
{
    y = 1;
    atomic_fetch_add(&x, 1);
    return unused;
}

static void *b(void *unused)
{
    atomic_fetch_add(&x, 1);
    y = 2;
    return unused;
}

int main(void)
{
    SIDE_BY_SIDE(a, b);
    return 0;
}
