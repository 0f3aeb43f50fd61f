/* It is looked at before the lock is taken: the signal may come between the look and the wait.
 * real: deadlock 1 */
#include "micro.h"

atomic_int ready;
pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t c = PTHREAD_COND_INITIALIZER;

static void *t(void *unused)
{
    if (!atomic_load(&ready)) {
        pthread_mutex_lock(&m);
        pthread_cond_wait(&c, &m);
        pthread_mutex_unlock(&m);
    }
    return unused;
}

static void *u(void *unused)
{
    atomic_store(&ready, 1);
    pthread_mutex_lock(&m);
    pthread_cond_signal(&c);
    pthread_mutex_unlock(&m);
    return unused;
}

int main(void)
{
    SIDE_BY_SIDE(t, u);
    return 0;
}
