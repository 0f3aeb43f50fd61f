/* A lock of three states (0 free, 1 held, 2 held and waited for) built on raw futex wait and wake guards a
 * counter. Expected: no update lost, nobody left asleep. */
#include "../support.h"

#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

static atomic_int state;
static int counter;

static void lock(void)
{
    int free_state = 0;
    if (atomic_compare_exchange_strong(&state, &free_state, 1))
        return;
    while (atomic_exchange(&state, 2) != 0)
        syscall(SYS_futex, &state, FUTEX_WAIT_PRIVATE, 2, NULL, NULL, 0);
}

static void unlock(void)
{
    if (atomic_exchange(&state, 0) == 2)
        syscall(SYS_futex, &state, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static void *increment(void *unused)
{
    for (int i = 0; i < 2; i++) {
        lock();
        counter++;
        unlock();
    }
    return unused;
}

int main(void)
{
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        CHECK(pthread_create(&threads[i], NULL, increment, NULL) == 0);
    for (int i = 0; i < 3; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    printf("%d\n", counter);
}
