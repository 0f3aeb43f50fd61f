/* Written by the waiter before it waits.
 * real: race y */
#include "micro.h"

int ready, x, y;
pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t c = PTHREAD_COND_INITIALIZER;

static void *b(void *unused)
{
    y = 2;
    pthread_mutex_lock(&m);
    while (!ready)
        pthread_cond_wait(&c, &m);
    pthread_mutex_unlock(&m);
    return unused;
}

static void *a(void *unused)
{
    pthread_mutex_lock(&m);
    ready = 1;
    pthread_cond_signal(&c);
    pthread_mutex_unlock(&m);
    y = 1;
    return unused;
}

int main(void)
{
    SIDE_BY_SIDE(b, a);
    return 0;
}
