/* Handed over by a flag that orders nothing.
 * real: race x */
#include "micro.h"

int x;
atomic_int flag;

static void *a(void *unused)
{
    x = 1;
    atomic_store_explicit(&flag, 1, memory_order_relaxed);
    return unused;
}

static void *b(void *unused)
{
    while (!atomic_load_explicit(&flag, memory_order_relaxed))
        sched_yield();
    x = 2;
    return unused;
}

int main(void)
{
    SIDE_BY_SIDE(a, b);
    return 0;
}
