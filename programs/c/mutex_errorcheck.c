/* An error-checking mutex reports a second lock (EDEADLK), a foreign unlock and an unlock of a free mutex
 * (EPERM). Expected: exactly these errors, whatever the schedule. */
#include "../support.h"

#include <errno.h>
#include <pthread.h>

static pthread_mutex_t mutex;

static void *foreign_unlock(void *unused)
{
    CHECK(pthread_mutex_unlock(&mutex) == EPERM);
    CHECK(pthread_mutex_trylock(&mutex) == EBUSY);
    return unused;
}

int main(void)
{
    pthread_t thread;
    pthread_mutexattr_t attr;
    pthread_mutexattr_init(&attr);
    pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ERRORCHECK);
    CHECK(pthread_mutex_init(&mutex, &attr) == 0);
    CHECK(pthread_mutex_lock(&mutex) == 0);
    CHECK(pthread_mutex_lock(&mutex) == EDEADLK);
    CHECK(pthread_create(&thread, NULL, foreign_unlock, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(pthread_mutex_unlock(&mutex) == 0);
    CHECK(pthread_mutex_unlock(&mutex) == EPERM);
    CHECK(pthread_mutex_destroy(&mutex) == 0);
}
