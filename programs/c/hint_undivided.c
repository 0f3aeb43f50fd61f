/* Each of two threads increments a counter by a load and a store in an undivided region, with another inside, and
 * waits for the other in the middle of one. Expected: no update is lost, and the wait lets the other run. */
#include "../support.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <unsnarl.h>

static atomic_int counter;
static sem_t greetings[2];

static void *increment(void *number)
{
    int me = *(int *)number;
    UNSNARL_UNDIVIDED_BEGIN();
    UNSNARL_UNDIVIDED_BEGIN();
    int before = atomic_load(&counter);
    UNSNARL_UNDIVIDED_END();
    UNSNARL_POINT("in the middle");
    atomic_store(&counter, before + 1);
    sem_post(&greetings[1 - me]);
    sem_wait(&greetings[me]);
    UNSNARL_UNDIVIDED_END();
    return NULL;
}

int main(void)
{
    pthread_t threads[2];
    int numbers[2] = {0, 1};
    for (int i = 0; i < 2; i++)
        sem_init(&greetings[i], 0, 0);
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, increment, &numbers[i]);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    CHECK(atomic_load(&counter) == 2);
    return 0;
}
