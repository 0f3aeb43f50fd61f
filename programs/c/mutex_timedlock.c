/* timedlock and clocklock on a held mutex time out, not before their deadline; on a contended one they are
 * repeated until they succeed. Expected: no update lost, exit 0. */
#define _GNU_SOURCE
#include "../support.h"

#include <errno.h>
#include <pthread.h>

static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER, contended = PTHREAD_MUTEX_INITIALIZER;
static int counter;

static int try_for(pthread_mutex_t *mutex, clockid_t clock, long ms)
{
    struct timespec deadline = deadline_in_ms(clock, ms);
    int error = clock == CLOCK_REALTIME ? pthread_mutex_timedlock(mutex, &deadline)
                                        : pthread_mutex_clocklock(mutex, clock, &deadline);
    CHECK(error == 0 || (error == ETIMEDOUT && has_passed(clock, deadline)));
    return error;
}

static void *worker(void *unused)
{
    CHECK(try_for(&held, CLOCK_REALTIME, 1) == ETIMEDOUT);
    CHECK(try_for(&held, CLOCK_MONOTONIC, 1) == ETIMEDOUT);
    while (try_for(&contended, CLOCK_REALTIME, 1000) == ETIMEDOUT)
        ;
    counter++;
    pthread_mutex_unlock(&contended);
    while (try_for(&contended, CLOCK_MONOTONIC, 1000) == ETIMEDOUT)
        ;
    counter++;
    pthread_mutex_unlock(&contended);
    return unused;
}

int main(void)
{
    pthread_t threads[2];
    pthread_mutex_lock(&held);
    for (int i = 0; i < 2; i++)
        CHECK(pthread_create(&threads[i], NULL, worker, NULL) == 0);
    for (int i = 0; i < 2; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    pthread_mutex_unlock(&held);
    CHECK(counter == 4);
}
