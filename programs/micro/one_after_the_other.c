/* The second thread is created when the first has been joined.
 * real: none */
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
    SIDE_BY_SIDE(a);
    SIDE_BY_SIDE(b);
    return 0;
}
