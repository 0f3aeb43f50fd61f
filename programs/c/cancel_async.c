/* With the asynchronous type a thread is cancelled in a loop that has no cancellation point. Expected:
 * cancelled in every schedule. */
#include "../support.h"

#include <pthread.h>
#include <sched.h>

static void *worker(void *unused)
{
    int old_type;
    CHECK(pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &old_type) == 0);
    for (;;)
        sched_yield();
    return unused;
}

int main(void)
{
    pthread_t thread;
    void *result;
    CHECK(pthread_create(&thread, NULL, worker, NULL) == 0);
    sched_yield();
    CHECK(pthread_cancel(thread) == 0);
    CHECK(pthread_join(thread, &result) == 0);
    CHECK(result == PTHREAD_CANCELED);
}
