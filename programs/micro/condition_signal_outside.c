/* The signal is given when the lock is free again.
 * real: none */
#include "micro.h"

int ready, x, y;
pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t c = PTHREAD_COND_INITIALIZER;

static void *a(void *unused)
{
    x = 1;
    pthread_mutex_lock(&m);
    ready = 1;
    pthread_mutex_unlock(&m);
    pthread_cond_signal(&c);
    return unused;
}

static void *b(void *unused)
{
    pthread_mutex_lock(&m);
    while (!ready)
        pthread_cond_wait(&c, &m);
    pthread_mutex_unlock(&m);
    x = 2;
    return unused;
}

int main(void)
{
    SIDE_BY_SIDE(a, b);
    return 0;
}
