/* The same, but the thread waits for its child.
 * real: none */
#include "micro.h"

int x;

static void *b(void *unused)
{
    x = 2;
    return unused;
}

static void *a(void *unused)
{
    SIDE_BY_SIDE(b);
    return unused;
}

int main(void)
{
    SIDE_BY_SIDE(a);
    x = 1;
    return 0;
}
