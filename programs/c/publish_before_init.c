/* The ready flag is set before the value it announces. Expected: a reader in between fails its assertion. */
#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>

static atomic_int value;
static atomic_bool is_ready;

static void *publish(void *unused)
{
    atomic_store(&is_ready, 1);
    atomic_store(&value, 42);
    return unused;
}

int main(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, publish, NULL);
    if (atomic_load(&is_ready))
        assert(atomic_load(&value) == 42); /* FAIL */
    pthread_join(thread, NULL);
    return 0;
}
