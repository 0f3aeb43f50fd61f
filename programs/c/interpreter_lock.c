/* An interpreter's lock, handed over as in CPython: who wants it waits five milliseconds, then asks the holder to give it
 * up at its next instruction, and the holder waits until another thread has taken it. Expected: exit 0; every
 * instruction is executed. */
#include "../support.h"

#include <errno.h>
#include <pthread.h>

enum { THREADS = 3, INSTRUCTIONS = 12 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t freed = PTHREAD_COND_INITIALIZER, switched = PTHREAD_COND_INITIALIZER;
static int is_locked, please_drop, switches, wanting;
static long holder = -1;
static int executed;

static void take(long me)
{
    pthread_mutex_lock(&mutex);
    wanting++;
    while (is_locked) {
        int before = switches;
        struct timespec interval = deadline_in_ms(CLOCK_REALTIME, 5);
        int error = pthread_cond_timedwait(&freed, &mutex, &interval);
        if (error == ETIMEDOUT && is_locked && switches == before)
            please_drop = 1;
    }
    wanting--;
    is_locked = 1;
    if (holder != me) {
        holder = me;
        switches++;
        pthread_cond_signal(&switched);
    }
    please_drop = 0;
    pthread_mutex_unlock(&mutex);
}

static void drop(long me, int must_switch)
{
    pthread_mutex_lock(&mutex);
    is_locked = 0;
    pthread_cond_signal(&freed);
    while (must_switch && wanting > 0 && holder == me)
        pthread_cond_wait(&switched, &mutex);
    pthread_mutex_unlock(&mutex);
}

static void *interpret(void *me)
{
    take((long)me);
    for (int i = 0; i < INSTRUCTIONS; i++) {
        executed++;
        pthread_mutex_lock(&mutex);
        int drops = please_drop;
        pthread_mutex_unlock(&mutex);
        if (drops) {
            drop((long)me, 1);
            take((long)me);
        }
    }
    drop((long)me, 0);
    return NULL;
}

int main(void)
{
    pthread_t threads[THREADS];
    for (long i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, interpret, (void *)i) == 0);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(executed == THREADS * INSTRUCTIONS);
}
