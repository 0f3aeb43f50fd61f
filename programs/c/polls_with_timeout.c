/* Two threads show the progress every five milliseconds until the work is done, which nobody signals. Expected: exit 0
 * under every schedule, after a bounded number of rounds. */
#include "../support.h"

#include <errno.h>
#include <pthread.h>

enum { ITEMS = 40 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t tick = PTHREAD_COND_INITIALIZER;
static int done;

static void *work(void *unused)
{
    for (int i = 0; i < ITEMS; i++) {
        pthread_mutex_lock(&mutex);
        done++;
        pthread_mutex_unlock(&mutex);
    }
    return unused;
}

static void *show(void *unused)
{
    int shown = 0;
    pthread_mutex_lock(&mutex);
    while (done < ITEMS) {
        struct timespec soon = deadline_in_ms(CLOCK_REALTIME, 5);
        CHECK(pthread_cond_timedwait(&tick, &mutex, &soon) == ETIMEDOUT);
        CHECK(done >= shown);
        shown = done;
    }
    pthread_mutex_unlock(&mutex);
    return unused;
}

int main(void)
{
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        CHECK(pthread_create(&threads[i], NULL, i == 2 ? work : show, NULL) == 0);
    for (int i = 0; i < 3; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(done == ITEMS);
}
