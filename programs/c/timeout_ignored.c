/* The result of a timed wait is used without asking whether the wait timed out. Expected: the assertion
 * fails when it did. */
#include <assert.h>
#include <pthread.h>
#include <semaphore.h>
#include <time.h>

static sem_t answered;
static int answer;

static void *compute(void *unused)
{
    answer = 42;
    sem_post(&answered);
    return unused;
}

int main(void)
{
    pthread_t thread;
    struct timespec deadline;
    sem_init(&answered, 0, 0);
    pthread_create(&thread, NULL, compute, NULL);
    clock_gettime(CLOCK_REALTIME, &deadline);
    deadline.tv_sec += 5;
    sem_timedwait(&answered, &deadline);
    assert(answer == 42); /* FAIL */
    pthread_join(thread, NULL);
    return 0;
}
