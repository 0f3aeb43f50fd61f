/* A pool of threads that adds up the parts of an array; each job has a future that main waits for. The argument is the
   number of jobs. The error: the statistics of the pool are updated without its lock when a job ends. */
#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define THREADS 4
#define PART 4

struct future {
    pthread_mutex_t mutex;
    pthread_cond_t done;
    int is_done;
    long value;
};

struct job {
    const int *numbers;
    int count;
    struct future *future;
    struct job *next;
};

struct pool {
    pthread_mutex_t mutex;
    pthread_cond_t has_work;
    struct job *first, **last;
    int closing;
    int finished;
    pthread_t threads[THREADS];
};

static void future_set(struct future *future, long value)
{
    pthread_mutex_lock(&future->mutex);
    future->value = value;
    future->is_done = 1;
    pthread_cond_signal(&future->done);
    pthread_mutex_unlock(&future->mutex);
}

static long future_get(struct future *future)
{
    pthread_mutex_lock(&future->mutex);
    while (!future->is_done)
        pthread_cond_wait(&future->done, &future->mutex);
    long value = future->value;
    pthread_mutex_unlock(&future->mutex);
    return value;
}

static struct job *pool_next(struct pool *pool)
{
    pthread_mutex_lock(&pool->mutex);
    while (!pool->first && !pool->closing)
        pthread_cond_wait(&pool->has_work, &pool->mutex);
    struct job *job = pool->first;
    if (job) {
        pool->first = job->next;
        if (!pool->first)
            pool->last = &pool->first;
    }
    pthread_mutex_unlock(&pool->mutex);
    return job;
}

static void *pool_thread(void *argument)
{
    struct pool *pool = argument;
    struct job *job;
    while ((job = pool_next(pool))) {
        long sum = 0;
        for (int i = 0; i < job->count; i++)
            sum += job->numbers[i];
        pool->finished++;
        future_set(job->future, sum);
    }
    return NULL;
}

static void pool_start(struct pool *pool)
{
    pthread_mutex_init(&pool->mutex, NULL);
    pthread_cond_init(&pool->has_work, NULL);
    pool->first = NULL;
    pool->last = &pool->first;
    pool->closing = pool->finished = 0;
    for (int i = 0; i < THREADS; i++)
        pthread_create(&pool->threads[i], NULL, pool_thread, pool);
}

static void pool_submit(struct pool *pool, struct job *job)
{
    pthread_mutex_lock(&pool->mutex);
    job->next = NULL;
    *pool->last = job;
    pool->last = &job->next;
    pthread_cond_signal(&pool->has_work);
    pthread_mutex_unlock(&pool->mutex);
}

static void pool_close(struct pool *pool)
{
    pthread_mutex_lock(&pool->mutex);
    pool->closing = 1;
    pthread_cond_broadcast(&pool->has_work);
    pthread_mutex_unlock(&pool->mutex);
    for (int i = 0; i < THREADS; i++)
        pthread_join(pool->threads[i], NULL);
}

int main(int argc, char **argv)
{
    int count = argc > 1 ? atoi(argv[1]) : 20;
    struct pool pool;
    struct job *jobs = calloc(count, sizeof *jobs);
    struct future *futures = calloc(count, sizeof *futures);
    int *numbers = calloc(count * PART, sizeof *numbers);
    for (int i = 0; i < count * PART; i++)
        numbers[i] = i % 10;
    pool_start(&pool);
    for (int i = 0; i < count; i++) {
        pthread_mutex_init(&futures[i].mutex, NULL);
        pthread_cond_init(&futures[i].done, NULL);
        jobs[i] = (struct job){ .numbers = numbers + i * PART, .count = PART, .future = &futures[i] };
        pool_submit(&pool, &jobs[i]);
    }
    long sum = 0;
    for (int i = 0; i < count; i++)
        sum += future_get(&futures[i]);
    pool_close(&pool);
    assert(pool.finished == count);
    printf("%d jobs, %ld\n", pool.finished, sum);
    return 0;
}
