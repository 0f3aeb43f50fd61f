/* The first signal may come before the wait, but another one comes later in any case.
 * real: none */
#include "micro.h"

pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t c = PTHREAD_COND_INITIALIZER;
atomic_int woken;

static void *t(void *unused)
{
    pthread_mutex_lock(&m);
    pthread_cond_wait(&c, &m);
    pthread_mutex_unlock(&m);
    atomic_store(&woken, 1);
    return unused;
}

static void *u(void *unused)
{
    do {
        pthread_mutex_lock(&m);
        pthread_cond_signal(&c);
        pthread_mutex_unlock(&m);
        sched_yield();
    } while (!atomic_load(&woken));
    return unused;
}

int main(void)
{
    SIDE_BY_SIDE(t, u);
    return 0;
}
