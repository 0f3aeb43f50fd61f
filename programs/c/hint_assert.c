/* A transfer between two accounts in two steps, and a named assertion that nobody ever sees the sum change.
 * Expected: the assertion fails by its name when it is made between the steps. */
#include <pthread.h>
#include <stdatomic.h>
#include <unsnarl.h>

static atomic_int here = 100, there;

static void *transfer(void *unused)
{
    atomic_fetch_sub(&here, 30);
    atomic_fetch_add(&there, 30);
    return unused;
}

int main(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, transfer, NULL);
    int sum = atomic_load(&here) + atomic_load(&there);
    UNSNARL_ASSERT(sum == 100, "nothing is lost on the way"); /* FAIL */
    pthread_join(thread, NULL);
    UNSNARL_ASSERT(atomic_load(&there) == 30, "it arrives");
    return 0;
}
