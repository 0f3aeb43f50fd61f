/* Timed waits until the end of time: they do not time out. Expected: exit 0. */
#include "../support.h"

#include <limits.h>
#include <pthread.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static int done;

static void *waiter(void *unused)
{
    const struct timespec never = {LONG_MAX, 0};
    pthread_mutex_lock(&mutex);
    while (!done)
        CHECK(pthread_cond_timedwait(&condition, &mutex, &never) == 0);
    pthread_mutex_unlock(&mutex);
    return unused;
}

int main(void)
{
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, waiter, NULL);
    pthread_mutex_lock(&mutex);
    done = 1;
    pthread_cond_broadcast(&condition);
    pthread_mutex_unlock(&mutex);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
}
