/* Three philosophers, three forks, each takes the left fork first. Expected: deadlock when each holds one
 * fork. */
#include <pthread.h>

enum { SEATS = 3 };

static pthread_mutex_t forks[SEATS] = {
    PTHREAD_MUTEX_INITIALIZER,
    PTHREAD_MUTEX_INITIALIZER,
    PTHREAD_MUTEX_INITIALIZER,
};

static void *dine(void *left_fork)
{
    pthread_mutex_t *left = left_fork, *right = &forks[(left - forks + 1) % SEATS];
    pthread_mutex_lock(left);
    pthread_mutex_lock(right);
    pthread_mutex_unlock(right);
    pthread_mutex_unlock(left);
    return NULL;
}

int main(void)
{
    pthread_t philosophers[SEATS];
    for (int i = 0; i < SEATS; i++)
        pthread_create(&philosophers[i], NULL, dine, &forks[i]);
    for (int i = 0; i < SEATS; i++)
        pthread_join(philosophers[i], NULL);
    return 0;
}
