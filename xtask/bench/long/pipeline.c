/* A pipeline of three stages with bounded queues between them: lines are produced, parsed and summed up. The argument
   is the number of lines. The error: the parsers count their lines without a lock. */
#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CAPACITY 8
#define PARSERS 2

struct item {
    int number;
    int length;
};

struct queue {
    pthread_mutex_t mutex;
    pthread_cond_t not_empty;
    pthread_cond_t not_full;
    struct item items[CAPACITY];
    int first;
    int count;
    int closed;
};

static struct queue lines, parsed;
static int total_lines;
static int parsed_lines;
static long total_length;

static void queue_init(struct queue *q)
{
    memset(q, 0, sizeof *q);
    pthread_mutex_init(&q->mutex, NULL);
    pthread_cond_init(&q->not_empty, NULL);
    pthread_cond_init(&q->not_full, NULL);
}

static int queue_is_empty(const struct queue *q)
{
    return q->count == 0;
}

static int queue_is_full(const struct queue *q)
{
    return q->count == CAPACITY;
}

static void queue_put(struct queue *q, struct item item)
{
    pthread_mutex_lock(&q->mutex);
    while (queue_is_full(q))
        pthread_cond_wait(&q->not_full, &q->mutex);
    q->items[(q->first + q->count) % CAPACITY] = item;
    q->count++;
    pthread_cond_signal(&q->not_empty);
    pthread_mutex_unlock(&q->mutex);
}

static int queue_take(struct queue *q, struct item *item)
{
    int found = 0;
    pthread_mutex_lock(&q->mutex);
    while (queue_is_empty(q) && !q->closed)
        pthread_cond_wait(&q->not_empty, &q->mutex);
    if (!queue_is_empty(q)) {
        *item = q->items[q->first];
        q->first = (q->first + 1) % CAPACITY;
        q->count--;
        found = 1;
        pthread_cond_signal(&q->not_full);
    }
    pthread_mutex_unlock(&q->mutex);
    return found;
}

static void queue_close(struct queue *q)
{
    pthread_mutex_lock(&q->mutex);
    q->closed = 1;
    pthread_cond_broadcast(&q->not_empty);
    pthread_mutex_unlock(&q->mutex);
}

static void *produce(void *unused)
{
    for (int i = 0; i < total_lines; i++)
        queue_put(&lines, (struct item){ .number = i });
    queue_close(&lines);
    return unused;
}

static int length_of(int number)
{
    char text[32];
    return snprintf(text, sizeof text, "line %d", number);
}

static void *parse(void *unused)
{
    struct item item;
    while (queue_take(&lines, &item)) {
        item.length = length_of(item.number);
        parsed_lines++;
        queue_put(&parsed, item);
    }
    return unused;
}

static void *sum(void *unused)
{
    struct item item;
    while (queue_take(&parsed, &item))
        total_length += item.length;
    return unused;
}

int main(int argc, char **argv)
{
    pthread_t producer, parsers[PARSERS], summer;
    total_lines = argc > 1 ? atoi(argv[1]) : 20;
    queue_init(&lines);
    queue_init(&parsed);
    pthread_create(&producer, NULL, produce, NULL);
    for (int i = 0; i < PARSERS; i++)
        pthread_create(&parsers[i], NULL, parse, NULL);
    pthread_create(&summer, NULL, sum, NULL);
    pthread_join(producer, NULL);
    for (int i = 0; i < PARSERS; i++)
        pthread_join(parsers[i], NULL);
    queue_close(&parsed);
    pthread_join(summer, NULL);
    assert(parsed_lines == total_lines);
    printf("%d lines, %ld characters\n", parsed_lines, total_length);
    return 0;
}
