/* What the programs dining_2 to dining_7 share: SEATS philosophers at a round table, each of whom takes
 * the fork to the left first. */
#include <pthread.h>

static pthread_mutex_t forks[SEATS];

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
        pthread_mutex_init(&forks[i], NULL);
    for (int i = 0; i < SEATS; i++)
        pthread_create(&philosophers[i], NULL, dine, &forks[i]);
    for (int i = 0; i < SEATS; i++)
        pthread_join(philosophers[i], NULL);
    return 0;
}
