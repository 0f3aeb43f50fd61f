/* The worker clears the stop flag as it starts. Expected: when main has set it by then, the worker spins
 * for ever on a flag that nobody will set again. */
#include <pthread.h>
#include <stdatomic.h>

static atomic_bool stop;

static void *work_until_stopped(void *unused)
{
    atomic_store(&stop, 0);
    while (!atomic_load(&stop)) /* FAIL */
        ;
    return unused;
}

int main(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, work_until_stopped, NULL);
    atomic_store(&stop, 1);
    pthread_join(thread, NULL);
    return 0;
}
