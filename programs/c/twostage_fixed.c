/* Three threads write the second stage before they release the lock of the first. One thread reads both stages.
 * Expected: if it sees the first stage written, it sees the second one written too. */
#include <assert.h>
#include <pthread.h>

enum { THREADS = 4 };

static pthread_mutex_t first_lock = PTHREAD_MUTEX_INITIALIZER, second_lock = PTHREAD_MUTEX_INITIALIZER;
static int first_stage, second_stage;

static void *write_both(void *unused)
{
    pthread_mutex_lock(&first_lock);
    first_stage = 1;
    pthread_mutex_lock(&second_lock);
    second_stage = first_stage + 1;
    pthread_mutex_unlock(&second_lock);
    pthread_mutex_unlock(&first_lock);
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
    assert(second == first + 1);
    return unused;
}

int main(void)
{
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, i < THREADS - 1 ? write_both : read_both, NULL);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
