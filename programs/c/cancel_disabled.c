/* A cancel request stays pending while cancellation is disabled, even through a cancellation point, and
 * takes effect once it is enabled again. Expected: the work is done, then the thread is cancelled. */
#include "../support.h"

#include <pthread.h>
#include <semaphore.h>

static sem_t is_disabled, is_requested;
static int work_done;

static void *worker(void *unused)
{
    int old_state;
    CHECK(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old_state) == 0);
    CHECK(old_state == PTHREAD_CANCEL_ENABLE);
    sem_post(&is_disabled);
    sem_wait(&is_requested);
    pthread_testcancel();
    work_done = 1;
    CHECK(pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &old_state) == 0);
    CHECK(old_state == PTHREAD_CANCEL_DISABLE);
    pthread_testcancel();
    return unused;
}

int main(void)
{
    pthread_t thread;
    void *result;
    sem_init(&is_disabled, 0, 0);
    sem_init(&is_requested, 0, 0);
    CHECK(pthread_create(&thread, NULL, worker, NULL) == 0);
    sem_wait(&is_disabled);
    CHECK(pthread_cancel(thread) == 0);
    sem_post(&is_requested);
    CHECK(pthread_join(thread, &result) == 0);
    CHECK(result == PTHREAD_CANCELED && work_done);
}
