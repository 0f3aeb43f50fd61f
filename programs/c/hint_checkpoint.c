/* The threads of the set-up increment a counter by a load and a store; those after the checkpoint do it at once.
 * Expected: before the checkpoint nobody is preempted, so no update is ever lost. */
#include "../support.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unsnarl.h>

static atomic_int counter;

static void *set_up(void *unused)
{
    atomic_store(&counter, atomic_load(&counter) + 1);
    return unused;
}

static void *work(void *unused)
{
    atomic_fetch_add(&counter, 1);
    return unused;
}

static void two(void *(*routine)(void *))
{
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, routine, NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
}

int main(void)
{
    two(set_up);
    UNSNARL_CHECKPOINT();
    two(work);
    CHECK(atomic_load(&counter) == 4);
    return 0;
}
