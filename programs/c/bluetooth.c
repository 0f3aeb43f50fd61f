/* A driver counts the requests that it works on, and one for itself. To begin a request looks whether the
 * driver is stopping, then counts; to stop sets the flag, gives up the driver's own count, and waits for
 * zero. Expected: the assertion fails when all of the stopping comes between the look and the counting. */
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
    if (atomic_load(&is_stopping))
        return false;
    atomic_fetch_add(&pending, 1);
    return true;
}

static void *add(void *unused)
{
    if (begin_request()) {
        assert(!is_stopped); /* FAIL */
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
