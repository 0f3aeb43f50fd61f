/* A test-and-set lock that spins without yielding. Expected: no update lost; a fair scheduler must take
 * the spinning thread off, since only the other one can help it. */
#include "../support.h"

#include <pthread.h>
#include <stdatomic.h>

static atomic_flag busy = ATOMIC_FLAG_INIT;
static int counter;

static void *increment(void *unused)
{
    for (int i = 0; i < 2; i++) {
        while (atomic_flag_test_and_set_explicit(&busy, memory_order_acquire))
            ;
        counter++;
        atomic_flag_clear_explicit(&busy, memory_order_release);
    }
    return unused;
}

int main(void)
{
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        CHECK(pthread_create(&threads[i], NULL, increment, NULL) == 0);
    for (int i = 0; i < 2; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    printf("%d\n", counter);
}
