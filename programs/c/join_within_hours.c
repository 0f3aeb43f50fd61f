/* Two threads are joined with a limit of some hours, while others run. Expected: exit 0; neither join times out. */
#define _GNU_SOURCE
#include "../support.h"

#include <pthread.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int sum;

static void *add(void *unused)
{
    for (int i = 0; i < 10; i++) {
        pthread_mutex_lock(&mutex);
        sum++;
        pthread_mutex_unlock(&mutex);
    }
    return unused;
}

int main(void)
{
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        CHECK(pthread_create(&threads[i], NULL, add, NULL) == 0);
    for (int i = 0; i < 2; i++) {
        struct timespec late = deadline_in_ms(CLOCK_REALTIME, 10000 * 1000L);
        CHECK(pthread_timedjoin_np(threads[i], NULL, &late) == 0);
    }
    CHECK(sum == 20);
}
