/* What the programs twostage_2 and twostage_100 share: all but one of THREADS threads write first_stage
 * under one lock, then second_stage from it under another; the last one reads them in the same way. Each
 * access has its lock; what is missing is one lock over both. */
#include <assert.h>
#include <pthread.h>

static pthread_mutex_t first_lock = PTHREAD_MUTEX_INITIALIZER, second_lock = PTHREAD_MUTEX_INITIALIZER;
static int first_stage, second_stage;

static void *write_both(void *unused)
{
    pthread_mutex_lock(&first_lock);
    first_stage = 1;
    pthread_mutex_unlock(&first_lock);

    pthread_mutex_lock(&second_lock);
    second_stage = first_stage + 1;
    pthread_mutex_unlock(&second_lock);
    return unused;
}

static void *read_both(void *unused)
{
    pthread_mutex_lock(&first_lock);
    int first = first_stage;
    pthread_mutex_unlock(&first_lock);
    if (first == 0)
        return unused;

    pthread_mutex_lock(&second_lock);
    int second = second_stage;
    pthread_mutex_unlock(&second_lock);
    assert(second == first + 1); /* FAIL */
    return unused;
}

int main(void)
{
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS - 1; i++)
        pthread_create(&threads[i], NULL, write_both, NULL);
    pthread_create(&threads[THREADS - 1], NULL, read_both, NULL);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
