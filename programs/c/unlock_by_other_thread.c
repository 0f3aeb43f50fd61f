/* A worker unlocks the mutex that main holds. Expected: exit 0 with a warning, in every schedule. */
#include <pthread.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void *not_the_owner(void *unused)
{
    pthread_mutex_unlock(&mutex);
    return unused;
}

int main(void)
{
    pthread_t thread;
    pthread_mutex_lock(&mutex);
    pthread_create(&thread, NULL, not_the_owner, NULL);
    pthread_join(thread, NULL);
    return 0;
}
