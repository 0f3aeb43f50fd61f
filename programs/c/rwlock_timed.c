/* All four timed forms give up on a lock held for writing, not before their deadline; the reading forms
 * succeed at once on one held for reading, the writing ones do not. Expected: exit 0. */
#define _GNU_SOURCE
#include "../support.h"

#include <errno.h>
#include <pthread.h>

static pthread_rwlock_t written = PTHREAD_RWLOCK_INITIALIZER, read_only = PTHREAD_RWLOCK_INITIALIZER;

typedef int timed_form(pthread_rwlock_t *, clockid_t, const struct timespec *);

static int timedrdlock(pthread_rwlock_t *lock, clockid_t clock, const struct timespec *deadline)
{
    CHECK(clock == CLOCK_REALTIME);
    return pthread_rwlock_timedrdlock(lock, deadline);
}

static int timedwrlock(pthread_rwlock_t *lock, clockid_t clock, const struct timespec *deadline)
{
    CHECK(clock == CLOCK_REALTIME);
    return pthread_rwlock_timedwrlock(lock, deadline);
}

static void must_time_out(timed_form *form, pthread_rwlock_t *lock, clockid_t clock)
{
    struct timespec deadline = deadline_in_ms(clock, 1);
    CHECK(form(lock, clock, &deadline) == ETIMEDOUT);
    CHECK(has_passed(clock, deadline));
}

static void *worker(void *unused)
{
    must_time_out(timedrdlock, &written, CLOCK_REALTIME);
    must_time_out(timedwrlock, &written, CLOCK_REALTIME);
    must_time_out(pthread_rwlock_clockrdlock, &written, CLOCK_MONOTONIC);
    must_time_out(pthread_rwlock_clockwrlock, &written, CLOCK_MONOTONIC);
    must_time_out(timedwrlock, &read_only, CLOCK_REALTIME);
    must_time_out(pthread_rwlock_clockwrlock, &read_only, CLOCK_REALTIME);

    struct timespec deadline = deadline_in_ms(CLOCK_REALTIME, 1000);
    CHECK(pthread_rwlock_timedrdlock(&read_only, &deadline) == 0);
    CHECK(pthread_rwlock_unlock(&read_only) == 0);
    return unused;
}

int main(void)
{
    pthread_t thread;
    pthread_rwlock_wrlock(&written);
    pthread_rwlock_rdlock(&read_only);
    CHECK(pthread_create(&thread, NULL, worker, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    pthread_rwlock_unlock(&read_only);
    pthread_rwlock_unlock(&written);
}
