/* One thread writes, another reads.
 * real: race x */
#include "micro.h"

int x, y;

static void *a(void *unused)
{
    x = 1;
    return unused;
}

static void *b(void *unused)
{
    y = x;
    return unused;
}

int main(void)
{
    SIDE_BY_SIDE(a, b);
    return 0;
}
