/* Three threads race through pthread_once. Expected: the initialiser ran exactly once, and is complete (it
 * waits on a lock in the middle) before any of the three calls returns. */
#include "../support.h"

#include <pthread.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int started, finished;

static void initialise(void)
{
    started++;
    pthread_mutex_lock(&mutex);
    pthread_mutex_unlock(&mutex);
    finished++;
}

static void *user(void *unused)
{
    pthread_mutex_lock(&mutex);
    pthread_mutex_unlock(&mutex);
    CHECK(pthread_once(&once, initialise) == 0);
    CHECK(started == 1 && finished == 1);
    return unused;
}

int main(void)
{
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        CHECK(pthread_create(&threads[i], NULL, user, NULL) == 0);
    for (int i = 0; i < 3; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
}
