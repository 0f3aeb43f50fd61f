/* A robust mutex unlocked without having been made consistent can never be locked again. Expected:
 * EOWNERDEAD once, ENOTRECOVERABLE ever after, in every thread. */
#include "../support.h"

#include <errno.h>
#include <pthread.h>

static pthread_mutex_t mutex;

static void *dies_holding(void *unused)
{
    CHECK(pthread_mutex_lock(&mutex) == 0);
    return unused;
}

static void *too_late(void *unused)
{
    CHECK(pthread_mutex_lock(&mutex) == ENOTRECOVERABLE);
    CHECK(pthread_mutex_trylock(&mutex) == ENOTRECOVERABLE);
    return unused;
}

static void run(void *(*body)(void *))
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, body, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
}

int main(void)
{
    pthread_mutexattr_t attr;
    pthread_mutexattr_init(&attr);
    pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
    CHECK(pthread_mutex_init(&mutex, &attr) == 0);
    run(dies_holding);
    CHECK(pthread_mutex_trylock(&mutex) == EOWNERDEAD);
    CHECK(pthread_mutex_unlock(&mutex) == 0);
    run(too_late);
}
