/* A ring between one producer and one consumer who do not lock its indices. Expected: the assertion fails
 * when an item is put into the wrong slot, or is taken though it is not there, because the other was
 * half-way. */
#include <assert.h>
#include <pthread.h>

enum { CAPACITY = 4 };

static volatile int slots[CAPACITY], first, count; /* volatile is no lock */

static void *produce(void *unused)
{
    for (int item = 1; item <= CAPACITY; item++) {
        slots[(first + count) % CAPACITY] = item;
        count++;
    }
    return unused;
}

static void *consume(void *unused)
{
    int last = 0;
    for (int attempts = 0; attempts < 2 * CAPACITY; attempts++) {
        if (count == 0)
            continue;
        int item = slots[first];
        first = (first + 1) % CAPACITY;
        count--;
        assert(item == last + 1); /* FAIL */
        last = item;
    }
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
