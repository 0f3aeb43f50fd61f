/* C11's timed half: mtx_timedlock on a held mutex, cnd_timedwait nobody signals, thrd_sleep, tss_ with a
 * destructor, thrd_detach. Expected: both waits time out, the destructor runs, exit 0. */
#include "../support.h"

#include <semaphore.h>
#include <threads.h>

static mtx_t held, mutex;
static cnd_t never;
static tss_t slot;
static int destroyed;
static sem_t detached_done;

static void destroy(void *value)
{
    destroyed += *(int *)value;
}

static int waiter(void *value)
{
    CHECK(tss_set(slot, value) == thrd_success && tss_get(slot) == value);
    struct timespec deadline = deadline_in_ms(CLOCK_REALTIME, 1);
    CHECK(mtx_timedlock(&held, &deadline) == thrd_timedout);
    CHECK(has_passed(CLOCK_REALTIME, deadline));

    int result = thrd_success;
    mtx_lock(&mutex);
    deadline = deadline_in_ms(CLOCK_REALTIME, 1);
    while (result == thrd_success)
        result = cnd_timedwait(&never, &mutex, &deadline);
    mtx_unlock(&mutex);
    CHECK(result == thrd_timedout && has_passed(CLOCK_REALTIME, deadline));
    return 0;
}

static int sleeper(void *unused)
{
    (void)unused;
    CHECK(thrd_sleep(&(struct timespec){ .tv_nsec = 1000 }, NULL) == 0);
    sem_post(&detached_done);
    return 0;
}

int main(void)
{
    thrd_t waiting, detached;
    int value = 5;
    sem_init(&detached_done, 0, 0);
    CHECK(mtx_init(&held, mtx_timed) == thrd_success && mtx_init(&mutex, mtx_plain) == thrd_success);
    CHECK(cnd_init(&never) == thrd_success && tss_create(&slot, destroy) == thrd_success);
    mtx_lock(&held);
    CHECK(thrd_create(&waiting, waiter, &value) == thrd_success);
    CHECK(thrd_create(&detached, sleeper, NULL) == thrd_success && thrd_detach(detached) == thrd_success);
    CHECK(thrd_join(waiting, NULL) == thrd_success);
    mtx_unlock(&held);
    sem_wait(&detached_done);
    CHECK(destroyed == 5 && tss_get(slot) == NULL);
    tss_delete(slot);
}
