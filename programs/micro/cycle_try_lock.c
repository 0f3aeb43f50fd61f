/* The second lock is only tried.
 * real: none */
#include "micro.h"

pthread_mutex_t a = PTHREAD_MUTEX_INITIALIZER, b = PTHREAD_MUTEX_INITIALIZER;

static void *t(void *unused)
{
    pthread_mutex_lock(&a);
    if (pthread_mutex_trylock(&b) == 0)
        pthread_mutex_unlock(&b);
    pthread_mutex_unlock(&a);
    return unused;
}

static void *u(void *unused)
{
    pthread_mutex_lock(&b);
    pthread_mutex_lock(&a);
    pthread_mutex_unlock(&a);
    pthread_mutex_unlock(&b);
    return unused;
}

int main(void)
{
    SIDE_BY_SIDE(t, u);
    return 0;
}
