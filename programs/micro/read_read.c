/* Reading is no race.
 * real: none */
#include "micro.h"

int x = 1, y, z;

static void *a(void *unused)
{
    y = x;
    return unused;
}

static void *b(void *unused)
{
    z = x;
    return unused;
}

int main(void)
{
    SIDE_BY_SIDE(a, b);
    return 0;
}
