/* Two threads use trylock on one mutex and do something else when it is busy; a mutex that is surely held
 * is surely busy. Expected: every attempt is either a hit or a miss, and no hit is lost. */
#include "../support.h"

#include <errno.h>
#include <pthread.h>

enum { ATTEMPTS = 3 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int hits;

static void *surely_busy(void *unused)
{
    CHECK(pthread_mutex_trylock(&mutex) == EBUSY);
    return unused;
}

static void *keep_trying(void *misses)
{
    for (int i = 0; i < ATTEMPTS; i++) {
        int error = pthread_mutex_trylock(&mutex);
        if (error == 0) {
            hits++;
            pthread_mutex_unlock(&mutex);
        } else {
            CHECK(error == EBUSY);
            ++*(int *)misses;
        }
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[2];
    int misses[2] = { 0, 0 };
    pthread_mutex_lock(&mutex);
    CHECK(pthread_create(&threads[0], NULL, surely_busy, NULL) == 0);
    CHECK(pthread_join(threads[0], NULL) == 0);
    pthread_mutex_unlock(&mutex);

    for (int i = 0; i < 2; i++)
        CHECK(pthread_create(&threads[i], NULL, keep_trying, &misses[i]) == 0);
    for (int i = 0; i < 2; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(hits + misses[0] + misses[1] == 2 * ATTEMPTS);
}
