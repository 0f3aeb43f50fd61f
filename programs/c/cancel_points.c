/* Deferred cancellation takes effect in pthread_testcancel, sem_wait, sleep and pthread_join. Expected:
 * all four are cancelled; the thread one of them tried to join can still be joined. */
#include "../support.h"

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <unistd.h>

static sem_t never, may_end;
static pthread_t joinable;

static void *ends_when_signalled(void *unused)
{
    sem_wait(&may_end);
    return unused;
}

static void *at_testcancel(void *unused)
{
    for (;;) {
        pthread_testcancel();
        sched_yield();
    }
    return unused;
}

static void *at_sem_wait(void *unused)
{
    sem_wait(&never);
    return unused;
}

static void *at_sleep(void *unused)
{
    for (;;)
        sleep(3600);
    return unused;
}

static void *at_join(void *unused)
{
    pthread_join(joinable, NULL);
    return unused;
}

int main(void)
{
    void *(*const bodies[])(void *) = { at_testcancel, at_sem_wait, at_sleep, at_join };
    sem_init(&never, 0, 0);
    sem_init(&may_end, 0, 0);
    CHECK(pthread_create(&joinable, NULL, ends_when_signalled, NULL) == 0);
    for (int i = 0; i < 4; i++) {
        pthread_t thread;
        void *result;
        CHECK(pthread_create(&thread, NULL, bodies[i], NULL) == 0);
        CHECK(pthread_cancel(thread) == 0);
        CHECK(pthread_join(thread, &result) == 0);
        CHECK(result == PTHREAD_CANCELED);
    }
    sem_post(&may_end);
    CHECK(pthread_join(joinable, NULL) == 0);
}
