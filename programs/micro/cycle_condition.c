/* One waits for a signal with another lock held, which the other one needs before it signals.
 * real: deadlock 2 */
#include "micro.h"
#include <unistd.h>

int ready;
pthread_mutex_t l = PTHREAD_MUTEX_INITIALIZER, m = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t c = PTHREAD_COND_INITIALIZER;

static void *t(void *unused)
{
    pthread_mutex_lock(&l);
    pthread_mutex_unlock(&l);
    usleep(2000);
    pthread_mutex_lock(&m);
    ready = 1;
    pthread_cond_signal(&c);
    pthread_mutex_unlock(&m);
    return unused;
}

static void *u(void *unused)
{
    pthread_mutex_lock(&l);
    pthread_mutex_lock(&m);
    while (!ready)
        pthread_cond_wait(&c, &m);
    pthread_mutex_unlock(&m);
    pthread_mutex_unlock(&l);
    return unused;
}

int main(void)
{
    SIDE_BY_SIDE(t, u);
    return 0;
}
