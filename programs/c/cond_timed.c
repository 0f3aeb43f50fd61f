/* Timed waits by each clock: timedwait, timedwait on a condition with the monotonic clock, clockwait. A
 * time- out is never before the deadline, and the mutex is held afterwards. Expected: all three see the
 * flag in the end. */
#define _GNU_SOURCE
#include "../support.h"

#include <errno.h>
#include <pthread.h>

static pthread_mutex_t mutex = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
static pthread_cond_t by_default, by_attribute, by_argument;
static int ready;

static int wait_once(pthread_cond_t *cond, clockid_t clock, const struct timespec *deadline)
{
    return cond == &by_argument ? pthread_cond_clockwait(cond, &mutex, clock, deadline)
                                : pthread_cond_timedwait(cond, &mutex, deadline);
}

static void *waiter(void *cond)
{
    clockid_t clock = cond == &by_default ? CLOCK_REALTIME : CLOCK_MONOTONIC;
    CHECK(pthread_mutex_lock(&mutex) == 0);
    while (!ready) {
        struct timespec deadline = deadline_in_ms(clock, 1000);
        int error = wait_once(cond, clock, &deadline);
        CHECK(error == 0 || (error == ETIMEDOUT && has_passed(clock, deadline)));
    }
    CHECK(pthread_mutex_unlock(&mutex) == 0);
    return NULL;
}

int main(void)
{
    pthread_t threads[3];
    pthread_cond_t *const conds[] = { &by_default, &by_attribute, &by_argument };
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    CHECK(pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC) == 0);
    pthread_cond_init(&by_default, NULL);
    pthread_cond_init(&by_attribute, &monotonic);
    pthread_cond_init(&by_argument, NULL);
    for (int i = 0; i < 3; i++)
        CHECK(pthread_create(&threads[i], NULL, waiter, conds[i]) == 0);
    CHECK(pthread_mutex_lock(&mutex) == 0);
    ready = 1;
    CHECK(pthread_mutex_unlock(&mutex) == 0);
    for (int i = 0; i < 3; i++)
        CHECK(pthread_cond_signal(conds[i]) == 0);
    for (int i = 0; i < 3; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
}
