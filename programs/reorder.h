/* What the programs reorder_3 to reorder_100 share: all but one of THREADS threads set a, then b, without
 * a lock; the last one looks whether it finds both set or neither. */
#include <assert.h>
#include <pthread.h>

static int a, b;

static void *set(void *unused)
{
    a = 1;
    b = -1;
    return unused;
}

static void *check(void *unused)
{
    assert((a == 0 && b == 0) || (a == 1 && b == -1)); /* FAIL */
    return unused;
}

int main(void)
{
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS - 1; i++)
        pthread_create(&threads[i], NULL, set, NULL);
    pthread_create(&threads[THREADS - 1], NULL, check, NULL);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
