/* main sleeps for a moment and takes it for granted that the worker is done by then. Expected: the
 * assertion fails in a schedule where it is not. */
#include <assert.h>
#include <pthread.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int is_done;

static void *work(void *unused)
{
    pthread_mutex_lock(&mutex);
    is_done = 1;
    pthread_mutex_unlock(&mutex);
    return unused;
}

int main(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, work, NULL);
    usleep(100000);
    pthread_mutex_lock(&mutex);
    assert(is_done); /* FAIL */
    pthread_mutex_unlock(&mutex);
    pthread_join(thread, NULL);
    return 0;
}
