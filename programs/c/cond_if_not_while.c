/* Consumers test for items with `if` instead of `while`. Expected: the assertion fails when another
 * consumer takes the item between the signal and the woken thread's turn. */
#include <assert.h>
#include <pthread.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t filled = PTHREAD_COND_INITIALIZER;
static int items;

static void *consume(void *unused)
{
    pthread_mutex_lock(&mutex);
    if (items == 0)
        pthread_cond_wait(&filled, &mutex);
    assert(items > 0); /* FAIL */
    items--;
    pthread_mutex_unlock(&mutex);
    return unused;
}

int main(void)
{
    pthread_t consumers[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&consumers[i], NULL, consume, NULL);
    for (int i = 0; i < 2; i++) {
        pthread_mutex_lock(&mutex);
        items++;
        pthread_cond_signal(&filled);
        pthread_mutex_unlock(&mutex);
    }
    for (int i = 0; i < 2; i++)
        pthread_join(consumers[i], NULL);
    return 0;
}
