/* The lock is needed behind the barrier only: nobody is kept from arriving.
 * real: none */
#include "micro.h"

pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
pthread_barrier_t b;

static void *t(void *unused)
{
    pthread_barrier_wait(&b);
    pthread_mutex_lock(&m);
    pthread_mutex_unlock(&m);
    return unused;
}

static void *u(void *unused)
{
    pthread_mutex_lock(&m);
    pthread_barrier_wait(&b);
    pthread_mutex_unlock(&m);
    return unused;
}

int main(void)
{
    pthread_barrier_init(&b, NULL, 2);
    SIDE_BY_SIDE(t, u);
    return 0;
}
