/* An hour alone by sleep, then three threads that each sleep for an hour in their own way. Expected: every
 * clock shows that the time has passed, though none really has: time is virtual. (Natively this takes
 * hours.) */
#define _GNU_SOURCE
#include "../support.h"

#include <pthread.h>
#include <unistd.h>

enum { HOUR = 3600 };

static time_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec;
}

static void *by_sleep_and_nanosleep(void *unused)
{
    time_t start = now();
    CHECK(sleep(HOUR / 2) == 0);
    CHECK(nanosleep(&(struct timespec){ .tv_sec = HOUR / 2 }, NULL) == 0);
    CHECK(now() - start >= HOUR);
    return unused;
}

static void *by_usleep(void *unused)
{
    time_t start = now();
    for (int i = 0; i < 4; i++)
        CHECK(usleep(HOUR / 4 * 1000000u) == 0);
    CHECK(now() - start >= HOUR);
    return unused;
}

static void *until_deadline(void *unused)
{
    struct timespec deadline = deadline_in_ms(CLOCK_MONOTONIC, HOUR * 1000L);
    CHECK(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &deadline, NULL) == 0);
    CHECK(has_passed(CLOCK_MONOTONIC, deadline));
    return unused;
}

int main(void)
{
    void *(*const bodies[])(void *) = { by_sleep_and_nanosleep, by_usleep, until_deadline };
    pthread_t threads[3];
    time_t start = now(), wall_start = time(NULL);
    CHECK(sleep(HOUR) == 0);
    CHECK(now() - start >= HOUR && now() - start <= HOUR + 60);
    CHECK(time(NULL) - wall_start >= HOUR && time(NULL) - wall_start <= HOUR + 60);
    for (int i = 0; i < 3; i++)
        CHECK(pthread_create(&threads[i], NULL, bodies[i], NULL) == 0);
    for (int i = 0; i < 3; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(now() - start >= 2 * HOUR && now() - start <= 4 * HOUR + 60);
}
