/* Two variables, both without a lock.
 * real: race x
 * real: race y */
#include "micro.h"

int x, y;

static void *a(void *unused)
{
    x = 1;
    y = 1;
    return unused;
}

static void *b(void *unused)
{
    x = 2;
    y = 2;
    return unused;
}

int main(void)
{
    SIDE_BY_SIDE(a, b);
    return 0;
}
