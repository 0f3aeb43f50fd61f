/* Two producers and one consumer share a queue of one place, each side with its own condition. Expected:
 * the sum of what was consumed is the sum of what was produced. */
#include "../support.h"

#include <pthread.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t filled = PTHREAD_COND_INITIALIZER, emptied = PTHREAD_COND_INITIALIZER;
static int place; /* 0: empty */

static void put(int item)
{
    pthread_mutex_lock(&mutex);
    while (place != 0)
        pthread_cond_wait(&emptied, &mutex);
    place = item;
    pthread_cond_signal(&filled);
    pthread_mutex_unlock(&mutex);
}

static int take(void)
{
    pthread_mutex_lock(&mutex);
    while (place == 0)
        pthread_cond_wait(&filled, &mutex);
    int item = place;
    place = 0;
    pthread_cond_signal(&emptied);
    pthread_mutex_unlock(&mutex);
    return item;
}

static void *produce(void *first)
{
    put(*(int *)first);
    put(*(int *)first + 1);
    return NULL;
}

int main(void)
{
    pthread_t threads[2];
    int first[2] = { 10, 20 }, sum = 0;
    for (int i = 0; i < 2; i++)
        CHECK(pthread_create(&threads[i], NULL, produce, &first[i]) == 0);
    for (int i = 0; i < 4; i++)
        sum += take();
    for (int i = 0; i < 2; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    printf("%d\n", sum);
}
