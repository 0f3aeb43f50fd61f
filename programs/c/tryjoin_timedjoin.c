/* tryjoin and timedjoin of a thread that cannot end yet fail with EBUSY and ETIMEDOUT; once it may end, a
 * timed join either succeeds or times out, and a plain join always works. Expected: exit 0. */
#define _GNU_SOURCE
#include "../support.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>

static sem_t may_end;
static int result_value = 7;

static void *worker(void *unused)
{
    (void)unused;
    sem_wait(&may_end);
    return &result_value;
}

int main(void)
{
    pthread_t thread;
    void *result = NULL;
    sem_init(&may_end, 0, 0);
    CHECK(pthread_create(&thread, NULL, worker, NULL) == 0);

    CHECK(pthread_tryjoin_np(thread, &result) == EBUSY);
    struct timespec deadline = deadline_in_ms(CLOCK_REALTIME, 1);
    CHECK(pthread_timedjoin_np(thread, &result, &deadline) == ETIMEDOUT);
    CHECK(has_passed(CLOCK_REALTIME, deadline));

    sem_post(&may_end);
    deadline = deadline_in_ms(CLOCK_MONOTONIC, 1000);
    int error = pthread_clockjoin_np(thread, &result, CLOCK_MONOTONIC, &deadline);
    if (error != 0) {
        CHECK(error == ETIMEDOUT);
        CHECK(pthread_join(thread, &result) == 0);
    }
    CHECK(result == &result_value);
    sem_destroy(&may_end);
}
