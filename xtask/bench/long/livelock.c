/* Workers take jobs from a queue and count the finished ones, and main polls the count until all are finished. The argument
   is the number of jobs. The error: the count is read and written, not added to atomically, so that an update may get lost
   and main polls for ever. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define WORKERS 3

struct queue {
    pthread_mutex_t mutex;
    int next, end;
};

static struct queue jobs = {PTHREAD_MUTEX_INITIALIZER, 0, 0};
static atomic_int finished;

static int take(struct queue *queue)
{
    pthread_mutex_lock(&queue->mutex);
    int job = queue->next < queue->end ? queue->next++ : -1;
    pthread_mutex_unlock(&queue->mutex);
    return job;
}

static void finish(void)
{
    int before = atomic_load(&finished);
    atomic_store(&finished, before + 1);
}

static void *work(void *unused)
{
    while (take(&jobs) >= 0)
        finish();
    return unused;
}

int main(int argc, char **argv)
{
    pthread_t workers[WORKERS];
    jobs.end = argc > 1 ? atoi(argv[1]) : 10;
    for (int i = 0; i < WORKERS; i++)
        pthread_create(&workers[i], NULL, work, NULL);
    while (atomic_load(&finished) < jobs.end)
        sched_yield();
    for (int i = 0; i < WORKERS; i++)
        pthread_join(workers[i], NULL);
    printf("%d jobs\n", jobs.end);
    return 0;
}
