/* A thread cancelled in pthread_cond_wait runs its cleanup handler with the mutex held again: the error-
 * checking mutex would refuse the unlock otherwise. Expected: cancelled, cleaned up, mutex free. */
#define _GNU_SOURCE
#include "../support.h"

#include <pthread.h>

static pthread_mutex_t mutex = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static int cleaned_up;

static void unlock(void *unused)
{
    (void)unused;
    cleaned_up++;
    CHECK(pthread_mutex_unlock(&mutex) == 0);
}

static void *waiter(void *unused)
{
    CHECK(pthread_mutex_lock(&mutex) == 0);
    pthread_cleanup_push(unlock, NULL);
    for (;;)
        pthread_cond_wait(&never, &mutex);
    pthread_cleanup_pop(0);
    return unused;
}

int main(void)
{
    pthread_t threads[2];
    void *result;
    for (int i = 0; i < 2; i++)
        CHECK(pthread_create(&threads[i], NULL, waiter, NULL) == 0);
    for (int i = 0; i < 2; i++)
        CHECK(pthread_cancel(threads[i]) == 0);
    for (int i = 0; i < 2; i++) {
        CHECK(pthread_join(threads[i], &result) == 0);
        CHECK(result == PTHREAD_CANCELED);
    }
    CHECK(cleaned_up == 2);
    CHECK(pthread_mutex_trylock(&mutex) == 0);
    CHECK(pthread_mutex_unlock(&mutex) == 0);
}
