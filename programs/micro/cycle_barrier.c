/* One arrives at the barrier with a lock that the other needs on its way there.
 * real: deadlock 2 */
#include "micro.h"

pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
pthread_barrier_t b;

static void *t(void *unused)
{
    pthread_mutex_lock(&m);
    pthread_mutex_unlock(&m);
    pthread_barrier_wait(&b);
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
