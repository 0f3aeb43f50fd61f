/* Written before the other thread is there.
 * real: none */
#include "micro.h"

int x;

static void *a(void *unused)
{
    x = 2;
    return unused;
}

int main(void)
{
    x = 1;
    SIDE_BY_SIDE(a);
    return 0;
}
