/* A wait on a condition needs the mutex: an error-checking one that is not held is refused, a recursive one
 * that is held twice stays locked during the wait, a robust one that nobody repaired is lost. Expected: exit 0,
 * with a remark on the first. */
#define _GNU_SOURCE
#include "../support.h"

#include <errno.h>
#include <pthread.h>

static const struct timespec past = {1, 0};
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static pthread_mutex_t checking = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
static pthread_mutex_t recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static pthread_mutex_t robust;

static void *try_during_wait(void *unused)
{
    CHECK(pthread_mutex_trylock(&recursive) == EBUSY);
    return unused;
}

static void *end_holding(void *unused)
{
    CHECK(pthread_mutex_lock(&robust) == 0);
    return unused;
}

int main(void)
{
    pthread_t thread;
    CHECK(pthread_cond_timedwait(&condition, &checking, &past) == EPERM);

    CHECK(pthread_mutex_lock(&recursive) == 0 && pthread_mutex_lock(&recursive) == 0);
    pthread_create(&thread, NULL, try_during_wait, NULL);
    CHECK(pthread_cond_timedwait(&condition, &recursive, &past) == ETIMEDOUT);
    pthread_join(thread, NULL);
    CHECK(pthread_mutex_unlock(&recursive) == 0 && pthread_mutex_unlock(&recursive) == 0);

    pthread_mutexattr_t attr;
    pthread_mutexattr_init(&attr);
    pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&robust, &attr);
    pthread_create(&thread, NULL, end_holding, NULL);
    pthread_join(thread, NULL);
    CHECK(pthread_mutex_lock(&robust) == EOWNERDEAD);
    CHECK(pthread_cond_timedwait(&condition, &robust, &past) == ENOTRECOVERABLE);
}
