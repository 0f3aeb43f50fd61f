/* Five philosophers who take the fork with the lower number first. Expected: everybody eats. */
#include <pthread.h>

enum { SEATS = 5 };

static pthread_mutex_t forks[SEATS];

static void *dine(void *left_fork)
{
    pthread_mutex_t *left = left_fork, *right = &forks[(left - forks + 1) % SEATS];
    pthread_mutex_t *first = left < right ? left : right, *second = left < right ? right : left;
    pthread_mutex_lock(first);
    pthread_mutex_lock(second);
    pthread_mutex_unlock(second);
    pthread_mutex_unlock(first);
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
