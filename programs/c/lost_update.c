/* Two threads increment a plain counter without a lock. Expected: the assertion fails when both read
 * before either writes. */
#include <assert.h>
#include <pthread.h>

static int counter;

static void *increment(void *unused)
{
    counter++;
    return unused;
}

int main(void)
{
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, increment, NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    assert(counter == 2); /* FAIL */
    return 0;
}
