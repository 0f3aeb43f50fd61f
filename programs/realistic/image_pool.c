/* A pool of threads that scales images; tiles are jobs in a linked list. The error: `stop` sets the flag and wakes the
   workers, which then leave although jobs are still in the list. */
#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define WORKERS 3
#define TILES 6
#define SIDE 3

struct tile {
    int pixels[SIDE];
    int scaled;
};

struct job {
    struct tile *tile;
    int factor;
    struct job *next;
};

struct pool {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct job *first, *last;
    int stopping;
    pthread_t threads[WORKERS];
};

static struct tile tiles[TILES];

static int has_jobs(const struct pool *pool)
{
    return pool->first != NULL;
}

static void push(struct pool *pool, struct job *job)
{
    job->next = NULL;
    if (pool->last)
        pool->last->next = job;
    else
        pool->first = job;
    pool->last = job;
}

static struct job *pop(struct pool *pool)
{
    struct job *job = pool->first;
    pool->first = job->next;
    if (!pool->first)
        pool->last = NULL;
    return job;
}

static void scale(struct tile *tile, int factor)
{
    for (int i = 0; i < SIDE; i++)
        tile->pixels[i] *= factor;
    tile->scaled = 1;
}

static struct job *next_job(struct pool *pool)
{
    struct job *job = NULL;
    pthread_mutex_lock(&pool->mutex);
    while (!has_jobs(pool) && !pool->stopping)
        pthread_cond_wait(&pool->changed, &pool->mutex);
    if (!pool->stopping)
        job = pop(pool);
    pthread_mutex_unlock(&pool->mutex);
    return job;
}

static void *work(void *argument)
{
    struct pool *pool = argument;
    struct job *job;
    while ((job = next_job(pool)) != NULL) {
        scale(job->tile, job->factor);
        free(job);
    }
    return NULL;
}

static void submit(struct pool *pool, struct tile *tile, int factor)
{
    struct job *job = malloc(sizeof *job);
    job->tile = tile;
    job->factor = factor;
    pthread_mutex_lock(&pool->mutex);
    push(pool, job);
    pthread_cond_signal(&pool->changed);
    pthread_mutex_unlock(&pool->mutex);
}

static void start(struct pool *pool)
{
    pthread_mutex_init(&pool->mutex, NULL);
    pthread_cond_init(&pool->changed, NULL);
    for (int i = 0; i < WORKERS; i++)
        pthread_create(&pool->threads[i], NULL, work, pool);
}

static void stop(struct pool *pool)
{
    pthread_mutex_lock(&pool->mutex);
    pool->stopping = 1;
    pthread_cond_broadcast(&pool->changed);
    pthread_mutex_unlock(&pool->mutex);
    for (int i = 0; i < WORKERS; i++)
        pthread_join(pool->threads[i], NULL);
}

static int number_scaled(void)
{
    int number = 0;
    for (int i = 0; i < TILES; i++)
        number += tiles[i].scaled;
    return number;
}

int main(void)
{
    static struct pool pool;
    for (int i = 0; i < TILES; i++)
        for (int j = 0; j < SIDE; j++)
            tiles[i].pixels[j] = i + j;
    start(&pool);
    for (int i = 0; i < TILES; i++)
        submit(&pool, &tiles[i], 2);
    stop(&pool);
    assert(number_scaled() == TILES);
    puts("all tiles are scaled");
    return 0;
}
