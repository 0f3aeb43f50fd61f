/* A worker looks for work under a lock, and main, which should bring it, waits for the worker to say that it is ready.
 * It never does. Expected: livelock in every schedule: the lock changes hands, but nothing else changes. */
#include <pthread.h>
#include <sched.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int is_ready, has_work;

static void wait_for(const int *condition)
{
    for (;;) {
        pthread_mutex_lock(&mutex);
        int is_met = *condition;
        pthread_mutex_unlock(&mutex);
        if (is_met)
            return;
        sched_yield();
    }
}

static void *work(void *unused)
{
    wait_for(&has_work);
    is_ready = 1;
    return unused;
}

int main(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, work, NULL);
    wait_for(&is_ready);
    pthread_mutex_lock(&mutex);
    has_work = 1;
    pthread_mutex_unlock(&mutex);
    pthread_join(thread, NULL);
    return 0;
}
