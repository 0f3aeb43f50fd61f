/* trywait, timedwait, clockwait and getvalue. No thread posts `never`, so both timed waits on it time out. `soon`
 * is posted once, so a timed wait on it may succeed or time out; the values show which of them happened. Expected:
 * exit 0. */
#define _GNU_SOURCE
#include "../support.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>

static sem_t never, soon;

static void *post_soon(void *unused)
{
    CHECK(sem_post(&soon) == 0);
    return unused;
}

int main(void)
{
    pthread_t thread;
    int value;
    sem_init(&never, 0, 0);
    sem_init(&soon, 0, 0);
    CHECK(pthread_create(&thread, NULL, post_soon, NULL) == 0);

    CHECK(sem_trywait(&never) == -1 && errno == EAGAIN);
    struct timespec deadline = deadline_in_ms(CLOCK_REALTIME, 1);
    CHECK(sem_timedwait(&never, &deadline) == -1 && errno == ETIMEDOUT);
    CHECK(has_passed(CLOCK_REALTIME, deadline));
    deadline = deadline_in_ms(CLOCK_MONOTONIC, 1);
    CHECK(sem_clockwait(&never, CLOCK_MONOTONIC, &deadline) == -1 && errno == ETIMEDOUT);
    CHECK(has_passed(CLOCK_MONOTONIC, deadline));

    deadline = deadline_in_ms(CLOCK_REALTIME, 1000);
    int taken = sem_timedwait(&soon, &deadline) == 0;
    CHECK(taken || errno == ETIMEDOUT);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(sem_getvalue(&soon, &value) == 0 && value == !taken);
    CHECK((sem_trywait(&soon) == 0) == !taken);
    CHECK(sem_destroy(&never) == 0 && sem_destroy(&soon) == 0);
}
