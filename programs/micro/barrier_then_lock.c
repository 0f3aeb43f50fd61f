/* The order of critical sections hides the race in a phase.
 * real: race x */
#include "micro.h"

int x, y, z;
pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
pthread_barrier_t phase;

static void *a(void *unused)
{
    pthread_barrier_wait(&phase);
    x = 1;
    LOCKED(m, z++);
    return unused;
}

static void *b(void *unused)
{
    pthread_barrier_wait(&phase);
    LOCKED(m, z++);
    x = 2;
    return unused;
}

int main(void)
{
    pthread_barrier_init(&phase, NULL, 2);
    SIDE_BY_SIDE(a, b);
    return 0;
}
