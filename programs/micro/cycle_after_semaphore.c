/* The two orders never meet: one waits for the other.
 * real: none */
#include "micro.h"

pthread_mutex_t a = PTHREAD_MUTEX_INITIALIZER, b = PTHREAD_MUTEX_INITIALIZER;
sem_t s;

static void *t(void *unused)
{
    pthread_mutex_lock(&a);
    pthread_mutex_lock(&b);
    pthread_mutex_unlock(&b);
    pthread_mutex_unlock(&a);
    sem_post(&s);
    return unused;
}

static void *u(void *unused)
{
    sem_wait(&s);
    pthread_mutex_lock(&b);
    pthread_mutex_lock(&a);
    pthread_mutex_unlock(&a);
    pthread_mutex_unlock(&b);
    return unused;
}

int main(void)
{
    sem_init(&s, 0, 0);
    SIDE_BY_SIDE(t, u);
    return 0;
}
