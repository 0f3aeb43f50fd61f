/* A thread waits in a loop that has a schedule point of its own. Expected: the point does not hide that the loop
 * only waits, so the other thread gets on under every policy. */
#include <pthread.h>
#include <stdatomic.h>
#include <unsnarl.h>

static atomic_int ready;

static void *waiter(void *unused)
{
    while (!atomic_load(&ready))
        UNSNARL_POINT("not ready yet");
    return unused;
}

int main(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, waiter, NULL);
    atomic_store(&ready, 1);
    pthread_join(thread, NULL);
    return 0;
}
