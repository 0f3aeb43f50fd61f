/* Two threads wait on one futex word with different bits; waking one bit must not wake the other. Timed
 * futex waits (relative, absolute by either clock) end by time-out, not before their deadline. Expected:
 * exit 0. */
#define _GNU_SOURCE
#include "../support.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

static atomic_int events, never;
static int bits[2] = { 1, 2 };

static long futex(atomic_int *word, int op, int value, const struct timespec *timeout, int bitset)
{
    return syscall(SYS_futex, word, op | FUTEX_PRIVATE_FLAG, value, timeout, NULL, bitset);
}

static void *wait_for_bit(void *bit)
{
    int mine = *(int *)bit, seen;
    while (((seen = atomic_load(&events)) & mine) == 0)
        CHECK(futex(&events, FUTEX_WAIT_BITSET, seen, NULL, mine) == 0 || errno == EAGAIN);
    return NULL;
}

static void must_time_out(int op, clockid_t clock)
{
    struct timespec deadline = deadline_in_ms(clock, 1);
    struct timespec relative = { .tv_nsec = 1000000 };
    CHECK(futex(&never, op, 0, op == FUTEX_WAIT ? &relative : &deadline, FUTEX_BITSET_MATCH_ANY) == -1);
    CHECK(errno == ETIMEDOUT && has_passed(clock, deadline));
}

int main(void)
{
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        CHECK(pthread_create(&threads[i], NULL, wait_for_bit, &bits[i]) == 0);
    for (int i = 1; i >= 0; i--) {
        atomic_fetch_or(&events, bits[i]);
        CHECK(futex(&events, FUTEX_WAKE_BITSET, 1, NULL, bits[i]) <= 1);
        CHECK(pthread_join(threads[i], NULL) == 0);
    }
    must_time_out(FUTEX_WAIT, CLOCK_MONOTONIC);
    must_time_out(FUTEX_WAIT_BITSET, CLOCK_MONOTONIC);
    must_time_out(FUTEX_WAIT_BITSET | FUTEX_CLOCK_REALTIME, CLOCK_REALTIME);
}
