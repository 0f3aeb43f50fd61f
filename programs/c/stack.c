/* Looking whether the stack is empty and popping are each under the lock, but not together. Expected: the
 * assertion fails when two threads see the one item and the second finds it gone. */
#include <assert.h>
#include <pthread.h>
#include <stdbool.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int items[4], height;

static void push(int item)
{
    pthread_mutex_lock(&mutex);
    items[height++] = item;
    pthread_mutex_unlock(&mutex);
}

static bool is_empty(void)
{
    pthread_mutex_lock(&mutex);
    bool empty = height == 0;
    pthread_mutex_unlock(&mutex);
    return empty;
}

static int pop(void)
{
    pthread_mutex_lock(&mutex);
    assert(height > 0); /* FAIL */
    int item = items[--height];
    pthread_mutex_unlock(&mutex);
    return item;
}

static void *push_and_pop(void *unused)
{
    push(1);
    for (int i = 0; i < 2; i++)
        if (!is_empty())
            pop();
    return unused;
}

int main(void)
{
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, push_and_pop, NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
