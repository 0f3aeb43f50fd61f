/* Plain data is handed over by a release store and an acquire load, and once more by relaxed accesses with
 * fences; the receiver spins with sched_yield. Expected: it always sees the data. */
#include "../support.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

static int first, second;
static atomic_bool first_ready, second_ready;

static void *sender(void *unused)
{
    first = 1;
    atomic_store_explicit(&first_ready, 1, memory_order_release);
    second = 2;
    atomic_thread_fence(memory_order_release);
    atomic_store_explicit(&second_ready, 1, memory_order_relaxed);
    return unused;
}

int main(void)
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, sender, NULL) == 0);
    while (!atomic_load_explicit(&first_ready, memory_order_acquire))
        sched_yield();
    CHECK(first == 1);
    while (!atomic_load_explicit(&second_ready, memory_order_relaxed))
        sched_yield();
    atomic_thread_fence(memory_order_acquire);
    CHECK(second == 2);
    CHECK(pthread_join(thread, NULL) == 0);
}
