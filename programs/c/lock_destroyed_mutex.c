/* main destroys the mutex before the worker that uses it has been joined. Expected: exit 0, with a warning
 * in the schedules where the worker comes late. */
#include <pthread.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void *late_user(void *unused)
{
    pthread_mutex_lock(&mutex);
    pthread_mutex_unlock(&mutex);
    return unused;
}

int main(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, late_user, NULL);
    pthread_mutex_destroy(&mutex);
    pthread_join(thread, NULL);
    return 0;
}
