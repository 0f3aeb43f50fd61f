/* Each thread has its own value under a key; a destructor that sets its key again is called in a further
 * round; a deleted key has no destructor any more. Expected: three rounds for each of two threads. */
#include "../support.h"

#include <pthread.h>
#include <stdint.h>

static pthread_key_t rounds_left;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int destructor_calls;

static void again_until_zero(void *value)
{
    intptr_t left = (intptr_t)value;
    CHECK(pthread_getspecific(rounds_left) == NULL);
    pthread_mutex_lock(&mutex);
    destructor_calls++;
    pthread_mutex_unlock(&mutex);
    CHECK(pthread_setspecific(rounds_left, (void *)(left - 1)) == 0);
}

static void must_not_run(void *value)
{
    CHECK(value == NULL);
}

static void *worker(void *unused)
{
    pthread_key_t deleted;
    CHECK(pthread_key_create(&deleted, must_not_run) == 0);
    CHECK(pthread_setspecific(deleted, &mutex) == 0);
    CHECK(pthread_key_delete(deleted) == 0);
    CHECK(pthread_getspecific(rounds_left) == NULL);
    CHECK(pthread_setspecific(rounds_left, (void *)3) == 0);
    return unused;
}

int main(void)
{
    pthread_t threads[2];
    CHECK(pthread_key_create(&rounds_left, again_until_zero) == 0);
    for (int i = 0; i < 2; i++)
        CHECK(pthread_create(&threads[i], NULL, worker, NULL) == 0);
    for (int i = 0; i < 2; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    printf("%d destructor calls\n", destructor_calls);
}
