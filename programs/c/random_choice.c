/* Two threads take two locks in an order that each draws at random. Expected: a deadlock, only with random
 * numbers for which the orders differ. */
#include <pthread.h>
#include <sys/random.h>
#include <stddef.h>

static pthread_mutex_t locks[2] = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER };

static void *take_both(void *unused)
{
    unsigned char drawn = 0;
    getrandom(&drawn, sizeof drawn, 0);
    int first = drawn < 32;
    pthread_mutex_lock(&locks[first]);
    pthread_mutex_lock(&locks[!first]);
    pthread_mutex_unlock(&locks[!first]);
    pthread_mutex_unlock(&locks[first]);
    return unused;
}

int main(void)
{
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, take_both, NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
