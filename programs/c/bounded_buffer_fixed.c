/* A buffer of one place, with one condition for both sides, which wakes all who wait. Expected: all is
 * produced and consumed. */
#include <pthread.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int items;

static void *produce(void *unused)
{
    for (int i = 0; i < 2; i++) {
        pthread_mutex_lock(&mutex);
        while (items == 1)
            pthread_cond_wait(&changed, &mutex);
        items++;
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&mutex);
    }
    return unused;
}

static void *consume(void *unused)
{
    pthread_mutex_lock(&mutex);
    while (items == 0)
        pthread_cond_wait(&changed, &mutex);
    items--;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mutex);
    return unused;
}

int main(void)
{
    pthread_t producer, consumers[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&consumers[i], NULL, consume, NULL);
    pthread_create(&producer, NULL, produce, NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(consumers[i], NULL);
    pthread_join(producer, NULL);
    return 0;
}
