/* Threads take chunks of an array from a dispatcher and add them up. The error: the dispatcher's next chunk is read and
   incremented without a lock, so that two threads may get the same chunk. */
#include <assert.h>
#include <pthread.h>
#include <stdio.h>

#define THREADS 3
#define CHUNKS 6
#define CHUNK 4

struct chunk {
    int first, length;
};

struct dispatcher {
    int next;
    int end;
};

struct result {
    pthread_mutex_t mutex;
    long sum;
    int chunks;
};

static int numbers[CHUNKS * CHUNK];
static struct dispatcher dispatcher = {0, CHUNKS};
static struct result result = {PTHREAD_MUTEX_INITIALIZER, 0, 0};

static int is_exhausted(const struct dispatcher *dispatcher)
{
    return dispatcher->next >= dispatcher->end;
}

static struct chunk chunk_number(int number)
{
    struct chunk chunk = {number * CHUNK, CHUNK};
    return chunk;
}

static int next_chunk(struct dispatcher *dispatcher, struct chunk *chunk)
{
    if (is_exhausted(dispatcher))
        return 0;
    *chunk = chunk_number(dispatcher->next);
    dispatcher->next++;
    return 1;
}

static long sum_of(const struct chunk *chunk)
{
    long sum = 0;
    for (int i = 0; i < chunk->length; i++)
        sum += numbers[chunk->first + i];
    return sum;
}

static void add(struct result *result, long sum)
{
    pthread_mutex_lock(&result->mutex);
    result->sum += sum;
    result->chunks++;
    pthread_mutex_unlock(&result->mutex);
}

static void *work(void *unused)
{
    struct chunk chunk;
    while (next_chunk(&dispatcher, &chunk))
        add(&result, sum_of(&chunk));
    return unused;
}

static int is_complete(const struct result *result)
{
    return result->chunks == CHUNKS;
}

static long expected(void)
{
    long sum = 0;
    for (int i = 0; i < CHUNKS * CHUNK; i++)
        sum += i;
    return sum;
}

static void fill(void)
{
    for (int i = 0; i < CHUNKS * CHUNK; i++)
        numbers[i] = i;
}

int main(void)
{
    pthread_t threads[THREADS];
    fill();
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, work, NULL);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    printf("%d chunks, sum %ld\n", result.chunks, result.sum);
    assert(is_complete(&result) && result.sum == expected());
    return 0;
}
