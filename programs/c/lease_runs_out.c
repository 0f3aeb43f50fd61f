/* A lease of 10 ms protects a counter: a thread that finds it expired takes it over. Expected: the assertion fails if
 * a holder was slow, and the next one begins before it is through. */
#include "../support.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t returned = PTHREAD_COND_INITIALIZER;
static int is_leased, inside;

static void borrow(void)
{
    struct timespec end = deadline_in_ms(CLOCK_REALTIME, 10);
    pthread_mutex_lock(&mutex);
    while (is_leased)
        if (pthread_cond_timedwait(&returned, &mutex, &end) == ETIMEDOUT)
            break;
    is_leased = 1;
    pthread_mutex_unlock(&mutex);
}

static void *user(void *unused)
{
    borrow();
    pthread_mutex_lock(&mutex);
    assert(++inside == 1); /* FAIL */
    pthread_mutex_unlock(&mutex);
    pthread_mutex_lock(&mutex);
    inside--;
    is_leased = 0;
    pthread_cond_signal(&returned);
    pthread_mutex_unlock(&mutex);
    return unused;
}

int main(void)
{
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, user, NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
}
