/* Written when the other thread is gone.
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
    SIDE_BY_SIDE(a);
    x = 1;
    return 0;
}
