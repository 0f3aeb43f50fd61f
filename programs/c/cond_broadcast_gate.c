/* Three threads wait at a gate that main opens once all have arrived, by one broadcast. Expected: all
 * pass. */
#include "../support.h"

#include <pthread.h>

enum { THREADS = 3 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t arrived = PTHREAD_COND_INITIALIZER, opened = PTHREAD_COND_INITIALIZER;
static int waiting, is_open, passed;

static void *pass(void *unused)
{
    pthread_mutex_lock(&mutex);
    waiting++;
    pthread_cond_signal(&arrived);
    while (!is_open)
        pthread_cond_wait(&opened, &mutex);
    passed++;
    pthread_mutex_unlock(&mutex);
    return unused;
}

int main(void)
{
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, pass, NULL) == 0);
    pthread_mutex_lock(&mutex);
    while (waiting < THREADS)
        pthread_cond_wait(&arrived, &mutex);
    CHECK(passed == 0);
    is_open = 1;
    pthread_cond_broadcast(&opened);
    pthread_mutex_unlock(&mutex);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    printf("%d passed\n", passed);
}
