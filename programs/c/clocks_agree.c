/* No clock runs backwards, in whatever order the threads look at it; time, gettimeofday, timespec_get and
 * clock_gettime agree; a sleep is seen by all of them. Expected: exit 0. */
#include "../support.h"

#include <pthread.h>
#include <sys/time.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct timespec latest;

static void look_at_monotonic_clock(void)
{
    pthread_mutex_lock(&mutex);
    CHECK(has_passed(CLOCK_MONOTONIC, latest));
    clock_gettime(CLOCK_MONOTONIC, &latest);
    pthread_mutex_unlock(&mutex);
}

static void compare_wall_clocks(void)
{
    struct timeval day;
    struct timespec spec;
    time_t seconds = time(NULL);
    CHECK(gettimeofday(&day, NULL) == 0);
    CHECK(day.tv_sec >= seconds && day.tv_usec >= 0 && day.tv_usec < 1000000);
    CHECK(timespec_get(&spec, TIME_UTC) == TIME_UTC);
    CHECK(spec.tv_sec > day.tv_sec || (spec.tv_sec == day.tv_sec && spec.tv_nsec / 1000 >= day.tv_usec));
    CHECK(has_passed(CLOCK_REALTIME, spec));
}

static void *worker(void *unused)
{
    struct timespec wake = deadline_in_ms(CLOCK_MONOTONIC, 1), wall = deadline_in_ms(CLOCK_REALTIME, 1);
    look_at_monotonic_clock();
    compare_wall_clocks();
    CHECK(nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL) == 0);
    CHECK(has_passed(CLOCK_MONOTONIC, wake) && has_passed(CLOCK_REALTIME, wall));
    look_at_monotonic_clock();
    return unused;
}

int main(void)
{
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        CHECK(pthread_create(&threads[i], NULL, worker, NULL) == 0);
    for (int i = 0; i < 3; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
}
