/* Main joins with a lock held that the thread wants.
 * real: deadlock 2 */
#include "micro.h"

pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;

static void *t(void *unused)
{
    pthread_mutex_lock(&m);
    pthread_mutex_unlock(&m);
    return unused;
}

int main(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, t, NULL);
    sched_yield();
    pthread_mutex_lock(&m);
    pthread_join(thread, NULL);
    pthread_mutex_unlock(&m);
    return 0;
}
