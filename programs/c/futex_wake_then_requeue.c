/* A waiter that was woken but did not run yet is no longer there for a requeue or a wake by bits. Expected:
 * both find nobody, and the waiter goes on. */
#define _GNU_SOURCE
#include "../support.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

static int word, other;

static long futex(int *at, int op, int value, long second, int *target, int third)
{
    return syscall(SYS_futex, at, op | FUTEX_PRIVATE_FLAG, value, second, target, third);
}

static void *waiter(void *unused)
{
    CHECK(futex(&word, FUTEX_WAIT, 0, 0, NULL, 0) == 0);
    return unused;
}

int main(void)
{
    pthread_t thread;
    for (int by_bits = 0; by_bits < 2; by_bits++) {
        pthread_create(&thread, NULL, waiter, NULL);
        while (futex(&word, FUTEX_WAKE, 1, 0, NULL, 0) == 0)
            sched_yield();
        if (by_bits)
            CHECK(futex(&word, FUTEX_WAKE_BITSET, 1, 0, NULL, 4) == 0);
        else
            CHECK(futex(&word, FUTEX_CMP_REQUEUE, 0, 1, &other, 0) == 0);
        pthread_join(thread, NULL);
    }
}
