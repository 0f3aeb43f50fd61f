/* Spin locks guard a counter; trylock of a held one is EBUSY. Expected: no update lost, and nobody spins
 * for ever under a scheduler that runs one thread at a time. */
#include "../support.h"

#include <errno.h>
#include <pthread.h>

static pthread_spinlock_t lock, held;
static int counter;

static void *increment(void *unused)
{
    CHECK(pthread_spin_trylock(&held) == EBUSY);
    for (int i = 0; i < 2; i++) {
        pthread_spin_lock(&lock);
        counter++;
        pthread_spin_unlock(&lock);
    }
    return unused;
}

int main(void)
{
    pthread_t threads[3];
    CHECK(pthread_spin_init(&lock, PTHREAD_PROCESS_PRIVATE) == 0);
    CHECK(pthread_spin_init(&held, PTHREAD_PROCESS_PRIVATE) == 0);
    CHECK(pthread_spin_trylock(&held) == 0);
    for (int i = 0; i < 3; i++)
        CHECK(pthread_create(&threads[i], NULL, increment, NULL) == 0);
    for (int i = 0; i < 3; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    pthread_spin_unlock(&held);
    printf("%d\n", counter);
    CHECK(pthread_spin_destroy(&lock) == 0 && pthread_spin_destroy(&held) == 0);
}
