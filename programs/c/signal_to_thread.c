/* Signals to threads: each is handled by the thread that it was sent to, on that thread's stack, also while the thread waits
 * for a mutex, a condition or a barrier, which go on as if nothing had been. Expected: exit 0. */
#define _GNU_SOURCE
#include "../support.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>

enum { THREADS = 3 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t barrier;
static int go;
static pthread_t threads[THREADS];
static int handled[THREADS];

static void handler(int signal)
{
    char here;
    pthread_attr_t attr;
    void *stack;
    size_t size;
    CHECK(signal == SIGUSR1);
    pthread_getattr_np(pthread_self(), &attr);
    pthread_attr_getstack(&attr, &stack, &size);
    CHECK(&here >= (char *)stack && &here < (char *)stack + size);
    pthread_attr_destroy(&attr);
    for (int i = 0; i < THREADS; i++)
        if (pthread_equal(threads[i], pthread_self()))
            handled[i]++;
}

static void *worker(void *unused)
{
    pthread_mutex_lock(&mutex);
    while (!go)
        pthread_cond_wait(&cond, &mutex);
    pthread_mutex_unlock(&mutex);
    pthread_barrier_wait(&barrier);
    return unused;
}

int main(void)
{
    struct sigaction action = {.sa_handler = handler};
    sigaction(SIGUSR1, &action, NULL);
    pthread_barrier_init(&barrier, NULL, THREADS);
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, worker, NULL);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_kill(threads[i], SIGUSR1) == 0);
    pthread_mutex_lock(&mutex);
    go = 1;
    pthread_cond_broadcast(&cond);
    pthread_mutex_unlock(&mutex);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < THREADS; i++)
        CHECK(handled[i] == 1);
    CHECK(pthread_kill(pthread_self(), 0) == 0);
    CHECK(pthread_kill(pthread_self(), 1000) == EINVAL);
}
