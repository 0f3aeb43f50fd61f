/* A waiter is signalled and cancelled at once, and acts on the cancellation. The signal is spent: it must not
 * be counted when the next waiter is signalled. Expected: the second waiter is woken. */
#include "../support.h"

#include <pthread.h>
#include <sched.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static int waiting, done;

static void unlock(void *unused)
{
    (void)unused;
    pthread_mutex_unlock(&mutex);
}

static void *waiter(void *unused)
{
    pthread_mutex_lock(&mutex);
    pthread_cleanup_push(unlock, NULL);
    waiting++;
    while (!done)
        pthread_cond_wait(&condition, &mutex);
    pthread_cleanup_pop(1);
    return unused;
}

/* Returns with the mutex locked, when so many are waiting. */
static void lock_when_waiting(int count)
{
    for (;;) {
        pthread_mutex_lock(&mutex);
        if (waiting == count)
            return;
        pthread_mutex_unlock(&mutex);
        sched_yield();
    }
}

int main(void)
{
    pthread_t first, second;
    pthread_create(&first, NULL, waiter, NULL);
    lock_when_waiting(1);
    pthread_cond_signal(&condition);
    pthread_cancel(first);
    pthread_mutex_unlock(&mutex);
    pthread_join(first, NULL);

    pthread_create(&second, NULL, waiter, NULL);
    lock_when_waiting(2);
    done = 1;
    pthread_cond_signal(&condition);
    pthread_mutex_unlock(&mutex);
    CHECK(pthread_join(second, NULL) == 0);
}
