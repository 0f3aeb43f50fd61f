/* One side of a flag is not atomic.
 * real: race flag */
#include "micro.h"

int flag;

static void *a(void *unused)
{
    __atomic_store_n(&flag, 1, __ATOMIC_SEQ_CST);
    return unused;
}

static void *b(void *unused)
{
    flag = 2;
    return unused;
}

int main(void)
{
    SIDE_BY_SIDE(a, b);
    return 0;
}
