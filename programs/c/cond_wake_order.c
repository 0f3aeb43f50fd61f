/* Two threads wait on one condition and one of them is signalled; POSIX does not say which. Expected: the
 * assertion that it is the one that came first fails when the scheduler wakes the other. */
#include <assert.h>
#include <pthread.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t progress = PTHREAD_COND_INITIALIZER, token_free = PTHREAD_COND_INITIALIZER;
static int arrived, served, tokens;
static void *first_to_arrive, *first_served;

static void *customer(void *me)
{
    pthread_mutex_lock(&mutex);
    if (arrived++ == 0)
        first_to_arrive = me;
    pthread_cond_signal(&progress);
    while (tokens == 0)
        pthread_cond_wait(&token_free, &mutex);
    tokens--;
    if (served++ == 0)
        first_served = me;
    pthread_cond_signal(&progress);
    pthread_mutex_unlock(&mutex);
    return NULL;
}

int main(void)
{
    pthread_t customers[2];
    int names[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&customers[i], NULL, customer, &names[i]);
    pthread_mutex_lock(&mutex);
    while (arrived < 2)
        pthread_cond_wait(&progress, &mutex);
    for (int i = 0; i < 2; i++) {
        tokens = 1;
        pthread_cond_signal(&token_free);
        while (served <= i)
            pthread_cond_wait(&progress, &mutex);
    }
    pthread_mutex_unlock(&mutex);
    for (int i = 0; i < 2; i++)
        pthread_join(customers[i], NULL);
    assert(first_served == first_to_arrive); /* FAIL */
    return 0;
}
