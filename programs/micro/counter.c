/* An atomic counter.
 * real: none */
#include "micro.h"

atomic_int x;

static void *a(void *unused)
{
    atomic_fetch_add(&x, 1);
    return unused;
}

static void *b(void *unused)
{
    atomic_fetch_add(&x, 1);
    return unused;
}

int main(void)
{
    SIDE_BY_SIDE(a, b);
    return 0;
}
