/* Buffers that several threads share, with reference counts. The error: `put` decrements the count and then reads it
   again, so that two threads may both see zero, or none. */
#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define READERS 3
#define BUFFERS 3
#define SIZE 4

struct buffer {
    atomic_int references;
    atomic_int recycled;
    int length;
    int bytes[SIZE];
};

struct buffer_list {
    pthread_mutex_t mutex;
    struct buffer *free[BUFFERS];
    int number_free;
};

static struct buffer_list buffers = {.mutex = PTHREAD_MUTEX_INITIALIZER};
static struct buffer *published[BUFFERS];
static long sums[READERS];

static struct buffer *new_buffer(int seed)
{
    struct buffer *buffer = calloc(1, sizeof *buffer);
    atomic_init(&buffer->references, READERS);
    buffer->length = SIZE;
    for (int i = 0; i < SIZE; i++)
        buffer->bytes[i] = seed * 10 + i;
    return buffer;
}

static int byte_at(const struct buffer *buffer, int at)
{
    return at < buffer->length ? buffer->bytes[at] : 0;
}

static long sum_of(const struct buffer *buffer)
{
    long sum = 0;
    for (int i = 0; i < SIZE; i++)
        sum += byte_at(buffer, i);
    return sum;
}

static void add_free(struct buffer_list *list, struct buffer *buffer)
{
    pthread_mutex_lock(&list->mutex);
    assert(list->number_free < BUFFERS);
    list->free[list->number_free++] = buffer;
    pthread_mutex_unlock(&list->mutex);
}

static void recycle(struct buffer *buffer)
{
    int before = atomic_fetch_add(&buffer->recycled, 1);
    assert(before == 0);
    add_free(&buffers, buffer);
}

static void put(struct buffer *buffer)
{
    atomic_fetch_sub(&buffer->references, 1);
    if (atomic_load(&buffer->references) == 0)
        recycle(buffer);
}

static void *reader(void *argument)
{
    size_t own = (size_t)argument;
    for (int i = 0; i < BUFFERS; i++) {
        struct buffer *buffer = published[(i + own) % BUFFERS];
        sums[own] += sum_of(buffer);
        put(buffer);
    }
    return NULL;
}

static int all_equal(void)
{
    for (int i = 1; i < READERS; i++)
        if (sums[i] != sums[0])
            return 0;
    return 1;
}

static void free_all(struct buffer_list *list)
{
    while (list->number_free > 0)
        free(list->free[--list->number_free]);
}

int main(void)
{
    pthread_t readers[READERS];
    for (int i = 0; i < BUFFERS; i++)
        published[i] = new_buffer(i);
    for (size_t i = 0; i < READERS; i++)
        pthread_create(&readers[i], NULL, reader, (void *)i);
    for (int i = 0; i < READERS; i++)
        pthread_join(readers[i], NULL);
    assert(all_equal());
    assert(buffers.number_free == BUFFERS);
    free_all(&buffers);
    puts("all buffers are free");
    return 0;
}
