// A pool of workers. A worker takes a job in one critical section and counts itself as active in another, and
// `pool_drain` looks at both counts in between.
// pattern: atomicity violation across two critical sections
// line: pool->active++;
#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#define JOBS 2

struct job {
    int input;
    int output;
    struct job *next;
};

struct stats {
    int done;
    long sum;
};

struct pool {
    pthread_mutex_t guard;
    pthread_cond_t more;
    struct job *head;
    int queued;
    int active;
    int closed;
    pthread_t worker;
    struct stats *stats;
};

static struct job *job_new(int input) {
    struct job *job = calloc(1, sizeof *job);
    job->input = input;
    return job;
}

static void pool_push(struct pool *pool, struct job *job) {
    pthread_mutex_lock(&pool->guard);
    job->next = pool->head;
    pool->head = job;
    pool->queued++;
    pthread_cond_signal(&pool->more);
    pthread_mutex_unlock(&pool->guard);
}

static struct job *pool_take(struct pool *pool) {
    pthread_mutex_lock(&pool->guard);
    while (pool->head == NULL && !pool->closed)
        pthread_cond_wait(&pool->more, &pool->guard);
    struct job *job = pool->head;
    if (job != NULL) {
        pool->head = job->next;
        pool->queued--;
    }
    pthread_mutex_unlock(&pool->guard);
    return job;
}

static void job_run(struct job *job) {
    job->output = job->input * job->input;
}

static void *work(void *arg) {
    struct pool *pool = arg;
    struct job *job;
    while ((job = pool_take(pool)) != NULL) {
        pthread_mutex_lock(&pool->guard);
        pool->active++;
        pthread_mutex_unlock(&pool->guard);

        job_run(job);

        pthread_mutex_lock(&pool->guard);
        pool->stats->done++;
        pool->stats->sum += job->output;
        pool->active--;
        pthread_mutex_unlock(&pool->guard);
        free(job);
    }
    return NULL;
}

static struct pool *pool_new(void) {
    struct pool *pool = calloc(1, sizeof *pool);
    pool->stats = calloc(1, sizeof *pool->stats);
    pthread_mutex_init(&pool->guard, NULL);
    pthread_cond_init(&pool->more, NULL);
    pthread_create(&pool->worker, NULL, work, pool);
    return pool;
}

static int pool_is_idle(struct pool *pool) {
    pthread_mutex_lock(&pool->guard);
    int idle = pool->queued == 0 && pool->active == 0;
    pthread_mutex_unlock(&pool->guard);
    return idle;
}

static void pool_drain(struct pool *pool) {
    while (!pool_is_idle(pool))
        sched_yield();
}

static void pool_close(struct pool *pool) {
    pthread_mutex_lock(&pool->guard);
    pool->closed = 1;
    pthread_cond_broadcast(&pool->more);
    pthread_mutex_unlock(&pool->guard);
    pthread_join(pool->worker, NULL);
    free(pool->stats);
    free(pool);
}

int main(void) {
    struct pool *pool = pool_new();
    for (int i = 1; i <= JOBS; i++)
        pool_push(pool, job_new(i));
    pool_drain(pool);
    assert(pool->stats->done == JOBS);
    printf("sum %ld\n", pool->stats->sum);
    pool_close(pool);
    return 0;
}
