/* What functions answer to improper times, unknown clocks, and locks of the wrong state: as in glibc, where
 * an improper time matters to some functions only if they have to wait. Expected: exit 0. */
#define _GNU_SOURCE
#include "../support.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/syscall.h>
#include <threads.h>
#include <unistd.h>

static const struct timespec past = {1, 0}, improper = {1, 1000000000}, negative = {-1, 0}, none = {0, 0};
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void *nothing(void *result)
{
    return result;
}

static void *ask_for_locked_mutex(void *unused)
{
    CHECK(pthread_mutex_timedlock(&mutex, &past) == ETIMEDOUT);
    CHECK(pthread_mutex_timedlock(&mutex, &negative) == ETIMEDOUT);
    CHECK(pthread_mutex_timedlock(&mutex, &improper) == EINVAL);
    CHECK(pthread_mutex_clocklock(&mutex, CLOCK_MONOTONIC, &past) == ETIMEDOUT);
    CHECK(pthread_mutex_clocklock(&mutex, CLOCK_PROCESS_CPUTIME_ID, &past) == EINVAL);
    return unused;
}

static int failed_with(long result)
{
    return result == -1 ? errno : 0;
}

int main(void)
{
    pthread_t thread;
    CHECK(pthread_mutex_timedlock(&mutex, &improper) == 0);
    pthread_create(&thread, NULL, ask_for_locked_mutex, NULL);
    pthread_join(thread, NULL);

    pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
    CHECK(pthread_cond_timedwait(&condition, &mutex, &negative) == ETIMEDOUT);
    CHECK(pthread_cond_timedwait(&condition, &mutex, &improper) == EINVAL);
    CHECK(pthread_cond_clockwait(&condition, &mutex, CLOCK_BOOTTIME, &past) == EINVAL);
    pthread_mutex_unlock(&mutex);

    pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
    CHECK(pthread_rwlock_timedwrlock(&rwlock, &improper) == EINVAL);
    CHECK(pthread_rwlock_wrlock(&rwlock) == 0);
    CHECK(pthread_rwlock_wrlock(&rwlock) == EDEADLK && pthread_rwlock_rdlock(&rwlock) == EDEADLK);
    CHECK(pthread_rwlock_clockrdlock(&rwlock, 99, &past) == EINVAL);
    CHECK(pthread_rwlock_unlock(&rwlock) == 0);

    sem_t semaphore;
    CHECK(failed_with(sem_init(&semaphore, 0, UINT_MAX)) == EINVAL && sem_init(&semaphore, 0, 1) == 0);
    CHECK(failed_with(sem_timedwait(&semaphore, &improper)) == EINVAL && sem_timedwait(&semaphore, &past) == 0);
    CHECK(failed_with(sem_clockwait(&semaphore, 55, &past)) == EINVAL);

    CHECK(failed_with(nanosleep(&negative, NULL)) == EINVAL && nanosleep(&none, NULL) == 0);
    CHECK(clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &negative, NULL) == EINVAL);
    CHECK(clock_nanosleep(CLOCK_THREAD_CPUTIME_ID, 0, &none, NULL) == EINVAL);
    CHECK(clock_nanosleep(CLOCK_MONOTONIC_RAW, 0, &none, NULL) == ENOTSUP);
    CHECK(thrd_sleep(&negative, NULL) == -2);

    int word = 0;
    CHECK(failed_with(syscall(SYS_futex, &word, FUTEX_WAIT, 0, &negative, NULL, 0)) == EINVAL);
    CHECK(failed_with(syscall(SYS_futex, &word, FUTEX_WAIT_BITSET, 0, &past, NULL, 0)) == EINVAL);
    CHECK(failed_with(syscall(SYS_futex, (char *)&word + 1, FUTEX_WAKE, 1, NULL, NULL, 0)) == EINVAL);

    void *result = NULL;
    pthread_create(&thread, NULL, nothing, &word);
    while (pthread_tryjoin_np(thread, &result) == EBUSY)
        thrd_yield();
    CHECK(result == &word);
}
