/* A function that locks a normal mutex calls another that locks it again. Expected: the thread waits for
 * itself. */
#include <pthread.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int entries;

static void log_entry(void)
{
    pthread_mutex_lock(&mutex);
    entries++;
    pthread_mutex_unlock(&mutex);
}

static void *worker(void *unused)
{
    pthread_mutex_lock(&mutex);
    log_entry();
    pthread_mutex_unlock(&mutex);
    return unused;
}

int main(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, worker, NULL);
    pthread_join(thread, NULL);
    return entries - 1;
}
