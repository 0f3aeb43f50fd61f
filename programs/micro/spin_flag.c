/* A lock made of an atomic flag.
 * real: none */
#include "micro.h"

int x;
atomic_flag f = ATOMIC_FLAG_INIT;

static void add(void)
{
    while (atomic_flag_test_and_set(&f))
        sched_yield();
    x++;
    atomic_flag_clear(&f);
}

static void *a(void *unused)
{
    add();
    return unused;
}

static void *b(void *unused)
{
    add();
    return unused;
}

int main(void)
{
    SIDE_BY_SIDE(a, b);
    return 0;
}
