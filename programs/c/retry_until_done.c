/* A worker holds a mutex while it does its rounds under another one. Main politely retries until the first is free.
 * For long, both only repeat what they did before; only the worker's counter changes. Expected: it ends normally. */
#include <pthread.h>
#include <sched.h>

enum { ROUNDS = 40000 };

static pthread_mutex_t busy = PTHREAD_MUTEX_INITIALIZER, round_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t started;

static void *work(void *unused)
{
    pthread_mutex_lock(&busy);
    pthread_barrier_wait(&started);
    for (int i = 0; i < ROUNDS; i++) {
        pthread_mutex_lock(&round_lock);
        pthread_mutex_unlock(&round_lock);
    }
    pthread_mutex_unlock(&busy);
    return unused;
}

int main(void)
{
    pthread_t thread;
    pthread_barrier_init(&started, NULL, 2);
    pthread_create(&thread, NULL, work, NULL);
    pthread_barrier_wait(&started);
    while (pthread_mutex_trylock(&busy) != 0)
        sched_yield();
    pthread_mutex_unlock(&busy);
    pthread_join(thread, NULL);
    pthread_barrier_destroy(&started);
    return 0;
}
