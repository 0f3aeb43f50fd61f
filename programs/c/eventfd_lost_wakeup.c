/* A waiter looks whether there is work, and if not clears the event counter before it waits for it: a wake-up that came in
 * between is lost. Expected: a deadlock in some schedules. */
#include "../support.h"

#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

static int wake;
static int work;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static int has_work(void)
{
    pthread_mutex_lock(&mutex);
    int found = work;
    pthread_mutex_unlock(&mutex);
    return found;
}

static void *waiter(void *unused)
{
    eventfd_t count;
    while (!has_work()) {
        eventfd_read(wake, &count); /* what was left from before */
        CHECK(eventfd_read(wake, &count) == 0);
    }
    return unused;
}

int main(void)
{
    pthread_t thread;
    wake = eventfd(1, 0);
    CHECK(wake >= 0);
    pthread_create(&thread, NULL, waiter, NULL);
    pthread_mutex_lock(&mutex);
    work = 1;
    pthread_mutex_unlock(&mutex);
    CHECK(eventfd_write(wake, 1) == 0);
    pthread_join(thread, NULL);
}
