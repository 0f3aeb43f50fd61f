/* An adaptive mutex does not look who holds it: anyone unlocks it, and its holder waits for itself. Expected:
 * the first is remarked on, the second is a deadlock. */
#define _GNU_SOURCE
#include "../support.h"

#include <pthread.h>

static pthread_mutex_t mutex = PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP;

static void *unlock(void *unused)
{
    CHECK(pthread_mutex_unlock(&mutex) == 0);
    return unused;
}

int main(void)
{
    pthread_t thread;
    pthread_mutex_lock(&mutex);
    pthread_create(&thread, NULL, unlock, NULL);
    pthread_join(thread, NULL);
    CHECK(pthread_mutex_trylock(&mutex) == 0);
    pthread_mutex_lock(&mutex); /* FAIL */
}
