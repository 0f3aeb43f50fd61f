/* A client waits up to a minute for the answer of a pool thread, which has some requests to serve before. Expected:
 * exit 0, because no thread of a pool that can run is kept from running for a minute. */
#include "../support.h"

#include <pthread.h>
#include <semaphore.h>

enum { REQUESTS = 30 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static sem_t answered;
static int served;

static void *serve(void *unused)
{
    for (int i = 0; i < REQUESTS; i++) {
        pthread_mutex_lock(&mutex);
        served++;
        pthread_mutex_unlock(&mutex);
    }
    sem_post(&answered);
    return unused;
}

int main(void)
{
    pthread_t thread;
    sem_init(&answered, 0, 0);
    CHECK(pthread_create(&thread, NULL, serve, NULL) == 0);
    struct timespec minute = deadline_in_ms(CLOCK_REALTIME, 60 * 1000);
    CHECK(sem_timedwait(&answered, &minute) == 0);
    CHECK(served == REQUESTS);
    CHECK(pthread_join(thread, NULL) == 0);
}
