// A compressor reads blocks and hands them to a consumer. When all are read, the producer frees the queue's mutex while the
// consumer is about to use it once more.
// pattern: order violation
// line: fifo->mutex = NULL;
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define BLOCKS 1

struct block {
    int number;
    int size;
};

struct fifo {
    struct block *slots[BLOCKS];
    int head;
    int tail;
    pthread_mutex_t *mutex;
};

struct output {
    int blocks;
    long bytes;
};

struct pipeline {
    struct fifo *fifo;
    struct output *output;
};

static struct fifo *fifo_new(void) {
    struct fifo *fifo = calloc(1, sizeof *fifo);
    fifo->mutex = malloc(sizeof *fifo->mutex);
    pthread_mutex_init(fifo->mutex, NULL);
    return fifo;
}

static void fifo_delete(struct fifo *fifo) {
    pthread_mutex_t *mutex = fifo->mutex;
    fifo->mutex = NULL;
    pthread_mutex_destroy(mutex);
    free(mutex);
}

static void fifo_put(struct fifo *fifo, struct block *block) {
    pthread_mutex_lock(fifo->mutex);
    fifo->slots[fifo->tail++] = block;
    pthread_mutex_unlock(fifo->mutex);
}

static struct block *fifo_get(struct fifo *fifo) {
    struct block *block = NULL;
    pthread_mutex_lock(fifo->mutex);
    if (fifo->head < fifo->tail)
        block = fifo->slots[fifo->head++];
    pthread_mutex_unlock(fifo->mutex);
    return block;
}

static void *consume(void *arg) {
    struct pipeline *pipeline = arg;
    while (pipeline->output->blocks < BLOCKS) {
        struct block *block = fifo_get(pipeline->fifo);
        if (block == NULL)
            continue;
        pipeline->output->bytes += block->size;
        pipeline->output->blocks++;
        free(block);
    }
    return NULL;
}

static void produce(struct pipeline *pipeline) {
    for (int number = 0; number < BLOCKS; number++) {
        struct block *block = calloc(1, sizeof *block);
        block->number = number;
        block->size = 900;
        fifo_put(pipeline->fifo, block);
    }
}

int main(void) {
    struct pipeline *pipeline = calloc(1, sizeof *pipeline);
    pipeline->fifo = fifo_new();
    pipeline->output = calloc(1, sizeof *pipeline->output);
    pthread_t consumer;
    pthread_create(&consumer, NULL, consume, pipeline);
    produce(pipeline);
    fifo_delete(pipeline->fifo);
    pthread_join(consumer, NULL);
    printf("%ld bytes\n", pipeline->output->bytes);
    free(pipeline->output);
    free(pipeline->fifo);
    free(pipeline);
    return 0;
}
