/* The driver that counts a request before it looks whether it is stopping. Expected: no request is worked
 * on after the driver has stopped. */
#include <assert.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>

static atomic_int pending = 1;
static atomic_bool is_stopping;
static sem_t none_pending;
static bool is_stopped;

static void end_request(void)
{
    if (atomic_fetch_sub(&pending, 1) == 1)
        sem_post(&none_pending);
}

static bool begin_request(void)
{
    atomic_fetch_add(&pending, 1);
    if (!atomic_load(&is_stopping))
        return true;
    end_request();
    return false;
}

static void *add(void *unused)
{
    if (begin_request()) {
        assert(!is_stopped);
        end_request();
    }
    return unused;
}

static void stop(void)
{
    atomic_store(&is_stopping, true);
    end_request();
    sem_wait(&none_pending);
    is_stopped = true;
}

int main(void)
{
    pthread_t adder;
    sem_init(&none_pending, 0, 0);
    pthread_create(&adder, NULL, add, NULL);
    stop();
    pthread_join(adder, NULL);
    return 0;
}
