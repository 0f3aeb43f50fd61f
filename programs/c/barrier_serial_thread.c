/* Three threads meet at a barrier three times. Expected: in each round exactly one of them is the serial
 * thread, and nobody gets ahead by a round. */
#include "../support.h"

#include <pthread.h>

enum { THREADS = 3, ROUNDS = 3 };

static pthread_barrier_t barrier;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int arrivals[ROUNDS], serial_threads[ROUNDS];

static void *worker(void *unused)
{
    for (int round = 0; round < ROUNDS; round++) {
        pthread_mutex_lock(&mutex);
        arrivals[round]++;
        pthread_mutex_unlock(&mutex);
        int result = pthread_barrier_wait(&barrier);
        CHECK(result == 0 || result == PTHREAD_BARRIER_SERIAL_THREAD);
        pthread_mutex_lock(&mutex);
        CHECK(arrivals[round] == THREADS);
        serial_threads[round] += result == PTHREAD_BARRIER_SERIAL_THREAD;
        pthread_mutex_unlock(&mutex);
    }
    return unused;
}

int main(void)
{
    pthread_t threads[THREADS];
    CHECK(pthread_barrier_init(&barrier, NULL, THREADS) == 0);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, worker, NULL) == 0);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    for (int round = 0; round < ROUNDS; round++)
        CHECK(serial_threads[round] == 1);
    CHECK(pthread_barrier_destroy(&barrier) == 0);
}
