/* The process kills itself in one of two orders of events. Expected: SIGKILL in that order, and nothing of
 * the trace lost, though no handler can run. */
#include <pthread.h>
#include <signal.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int is_closed;

static void *use(void *unused)
{
    pthread_mutex_lock(&mutex);
    if (is_closed)
        raise(SIGKILL);
    pthread_mutex_unlock(&mutex);
    return unused;
}

int main(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, use, NULL);
    pthread_mutex_lock(&mutex);
    is_closed = 1;
    pthread_mutex_unlock(&mutex);
    pthread_join(thread, NULL);
    return 0;
}
