/* One waits for a token with a lock held that the other one needs before it posts.
 * real: deadlock 2 */
#include "micro.h"

pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
sem_t s;

static void *t(void *unused)
{
    pthread_mutex_lock(&m);
    pthread_mutex_unlock(&m);
    sem_post(&s);
    return unused;
}

static void *u(void *unused)
{
    pthread_mutex_lock(&m);
    sem_wait(&s);
    pthread_mutex_unlock(&m);
    return unused;
}

int main(void)
{
    sem_init(&s, 0, 0);
    SIDE_BY_SIDE(t, u);
    return 0;
}
