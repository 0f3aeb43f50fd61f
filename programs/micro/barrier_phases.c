/* Written before the barrier, read after it.
 * real: none */
#include "micro.h"

int x, y, z;
pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
pthread_barrier_t phase;

static void *a(void *unused)
{
    x = 1;
    pthread_barrier_wait(&phase);
    return unused;
}

static void *b(void *unused)
{
    pthread_barrier_wait(&phase);
    y = x;
    return unused;
}

int main(void)
{
    pthread_barrier_init(&phase, NULL, 2);
    SIDE_BY_SIDE(a, b);
    return 0;
}
