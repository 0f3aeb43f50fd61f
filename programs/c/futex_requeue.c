/* Threads asleep on one futex are moved to another by requeue or cmp_requeue, one of them woken at once,
 * the rest by a wake on the other; who comes too late finds the word changed. Expected: the counts
 * returned (woken and moved together, in both forms) agree with who slept. */
#define _GNU_SOURCE
#include "../support.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { THREADS = 3 };

static atomic_int door, lobby, slept;

static long futex(atomic_int *word, int op, int value, uintptr_t value2, atomic_int *word2, int value3)
{
    return syscall(SYS_futex, word, op, value, value2, word2, value3);
}

static void *sleeper(void *unused)
{
    while (atomic_load(&door) == 0) {
        if (futex(&door, FUTEX_WAIT_PRIVATE, 0, 0, NULL, 0) == 0)
            atomic_fetch_add(&slept, 1);
        else
            CHECK(errno == EAGAIN);
    }
    return unused;
}

static void move_and_wake(int requeue_op)
{
    pthread_t threads[THREADS];
    atomic_store(&door, 0);
    atomic_store(&slept, 0);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, sleeper, NULL) == 0);

    CHECK(futex(&door, FUTEX_CMP_REQUEUE_PRIVATE, 1, INT_MAX, &lobby, 9) == -1 && errno == EAGAIN);
    atomic_store(&door, 1);
    long woken_or_moved = futex(&door, requeue_op, 1, INT_MAX, &lobby, 1);
    long woken_later = futex(&lobby, FUTEX_WAKE_PRIVATE, INT_MAX, 0, NULL, 0);
    CHECK(woken_later == (woken_or_moved > 0 ? woken_or_moved - 1 : 0));
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(atomic_load(&slept) == woken_or_moved);
}

int main(void)
{
    move_and_wake(FUTEX_REQUEUE_PRIVATE);
    move_and_wake(FUTEX_CMP_REQUEUE_PRIVATE);
}
