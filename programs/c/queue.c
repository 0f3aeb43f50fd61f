/* To enqueue reserves a slot under the lock, but fills it when the lock is no longer held. Expected: the
 * assertion fails when the slot is dequeued before it is filled. */
#include <assert.h>
#include <pthread.h>

enum { ITEMS = 3 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int slots[ITEMS], head, tail; /* a slot that holds 0 is not filled */

static void enqueue(int item)
{
    pthread_mutex_lock(&mutex);
    int slot = tail++;
    pthread_mutex_unlock(&mutex);
    slots[slot] = item;
}

static void dequeue(void)
{
    pthread_mutex_lock(&mutex);
    if (head < tail) {
        int item = slots[head++];
        assert(item != 0); /* FAIL */
    }
    pthread_mutex_unlock(&mutex);
}

static void *produce(void *unused)
{
    for (int item = 1; item <= ITEMS; item++)
        enqueue(item);
    return unused;
}

static void *consume(void *unused)
{
    for (int i = 0; i < ITEMS; i++)
        dequeue();
    return unused;
}

int main(void)
{
    pthread_t producer, consumer;
    pthread_create(&producer, NULL, produce, NULL);
    pthread_create(&consumer, NULL, consume, NULL);
    pthread_join(producer, NULL);
    pthread_join(consumer, NULL);
    return 0;
}
