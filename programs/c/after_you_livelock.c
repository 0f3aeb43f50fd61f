/* Each of two threads spins until the other has gone first. Expected: livelock in every schedule: both
 * run, neither gets anywhere, and nobody else can help. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

static atomic_bool has_gone[2];

static void *after_you(void *mine)
{
    atomic_bool *other = mine == &has_gone[0] ? &has_gone[1] : &has_gone[0];
    while (!atomic_load(other))
        sched_yield();
    atomic_store((atomic_bool *)mine, 1);
    return NULL;
}

int main(void)
{
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, after_you, &has_gone[i]);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
