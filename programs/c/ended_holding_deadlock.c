/* A thread returns early and leaves its mutex locked. Expected: main waits for a mutex whose owner has
 * ended. */
#include <pthread.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void *returns_early(void *nothing_to_do)
{
    pthread_mutex_lock(&mutex);
    if (nothing_to_do)
        return NULL;
    pthread_mutex_unlock(&mutex);
    return NULL;
}

int main(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, returns_early, "nothing to do");
    pthread_join(thread, NULL);
    pthread_mutex_lock(&mutex);
    pthread_mutex_unlock(&mutex);
    return 0;
}
