/* Two threads set one bit-field each. Both are in one byte, so each thread loads, changes and stores all of
 * it. Expected: the assertion fails if one thread stores between the other one's load and store. */
#include <assert.h>
#include <pthread.h>

static struct {
    unsigned ready : 1;
    unsigned done : 1;
} state;

static void *set_ready(void *unused)
{
    state.ready = 1;
    return unused;
}

static void *set_done(void *unused)
{
    state.done = 1;
    return unused;
}

int main(void)
{
    pthread_t threads[2];
    pthread_create(&threads[0], NULL, set_ready, NULL);
    pthread_create(&threads[1], NULL, set_done, NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    assert(state.ready && state.done); /* FAIL */
    return 0;
}
