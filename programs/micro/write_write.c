/* Two threads write without any order.
 * real: race x */
#include "micro.h"

int x;

static void *a(void *unused)
{
    x = 1;
    return unused;
}

static void *b(void *unused)
{
    x = 2;
    return unused;
}

int main(void)
{
    SIDE_BY_SIDE(a, b);
    return 0;
}
