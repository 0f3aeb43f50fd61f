/* Both threads write to unmapped memory and continue after the fault. Such accesses cannot race.
 * real: none */
#include "micro.h"
#include <setjmp.h>
#include <signal.h>

static __thread sigjmp_buf before;

static void go_on(int signal)
{
    siglongjmp(before, signal);
}

static void *a(void *unused)
{
    if (sigsetjmp(before, 1) == 0)
        *(volatile int *)8 = 1;
    return unused;
}

int main(void)
{
    signal(SIGSEGV, go_on);
    SIDE_BY_SIDE(a, a);
    return 0;
}
