/* The result of trylock is ignored. Expected: exit 0, with a warning in the schedules where trylock fails
 * and the thread unlocks what it does not hold. */
#include <pthread.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void *assume_success(void *unused)
{
    pthread_mutex_trylock(&mutex);
    pthread_mutex_unlock(&mutex);
    return unused;
}

int main(void)
{
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, assume_success, NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
