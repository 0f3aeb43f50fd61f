/* A third thread's critical section is in between.
 * real: race y */
#include "micro.h"

int y;
pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER, n = PTHREAD_MUTEX_INITIALIZER;

static void *a(void *unused)
{
    y = 1;
    pthread_mutex_lock(&m);
    pthread_mutex_unlock(&m);
    return unused;
}

static void *b(void *unused)
{
    pthread_mutex_lock(&m);
    pthread_mutex_lock(&n);
    pthread_mutex_unlock(&n);
    pthread_mutex_unlock(&m);
    return unused;
}

static void *c(void *unused)
{
    pthread_mutex_lock(&n);
    pthread_mutex_unlock(&n);
    y = 2;
    return unused;
}

int main(void)
{
    SIDE_BY_SIDE(a, b, c);
    return 0;
}
