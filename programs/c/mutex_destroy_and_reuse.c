/* A mutex, a condition and a semaphore are destroyed when nobody uses them any more and initialised again
 * in the same memory, as another kind. Expected: no warning, exit 0. */
#include "../support.h"

#include <pthread.h>
#include <semaphore.h>

static pthread_mutex_t mutex;
static pthread_cond_t changed;
static sem_t started;
static int value;

static void *set_value(void *unused)
{
    sem_post(&started);
    CHECK(pthread_mutex_lock(&mutex) == 0);
    value = 1;
    pthread_cond_signal(&changed);
    CHECK(pthread_mutex_unlock(&mutex) == 0);
    return unused;
}

int main(void)
{
    const int kinds[] = { PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_RECURSIVE, PTHREAD_MUTEX_ERRORCHECK };
    for (int i = 0; i < 3; i++) {
        pthread_t thread;
        pthread_mutexattr_t attr;
        pthread_mutexattr_init(&attr);
        pthread_mutexattr_settype(&attr, kinds[i]);
        CHECK(pthread_mutex_init(&mutex, &attr) == 0);
        CHECK(pthread_cond_init(&changed, NULL) == 0);
        CHECK(sem_init(&started, 0, 0) == 0);
        value = 0;
        CHECK(pthread_create(&thread, NULL, set_value, NULL) == 0);
        sem_wait(&started);
        pthread_mutex_lock(&mutex);
        while (!value)
            pthread_cond_wait(&changed, &mutex);
        pthread_mutex_unlock(&mutex);
        CHECK(pthread_join(thread, NULL) == 0);
        CHECK(pthread_mutex_destroy(&mutex) == 0);
        CHECK(pthread_cond_destroy(&changed) == 0);
        CHECK(sem_destroy(&started) == 0);
    }
}
