/* Blocks go through a queue to compressors. When all blocks are compressed, main deletes the queue, though
 * the compressors have not been joined. Expected: a compressor that comes back for another block crashes,
 * because the queue and its mutex are gone. */
#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdlib.h>

enum { BLOCKS = 2, COMPRESSORS = 2 };

static struct queue {
    pthread_mutex_t *mutex;
    int blocks;
} *queue;

static sem_t compressed;

static void make_queue(void)
{
    queue = malloc(sizeof *queue);
    queue->mutex = malloc(sizeof *queue->mutex);
    pthread_mutex_init(queue->mutex, NULL);
    queue->blocks = BLOCKS;
}

static void delete_queue(void)
{
    pthread_mutex_destroy(queue->mutex);
    free(queue->mutex);
    free(queue);
    queue = NULL;
}

static bool take_block(void)
{
    pthread_mutex_lock(queue->mutex);
    bool there_is_one = queue->blocks > 0; /* FAIL */
    if (there_is_one)
        queue->blocks--;
    pthread_mutex_unlock(queue->mutex);
    return there_is_one;
}

static void *compress(void *unused)
{
    while (take_block())
        sem_post(&compressed);
    return unused;
}

int main(void)
{
    pthread_t compressors[COMPRESSORS];
    make_queue();
    sem_init(&compressed, 0, 0);
    for (int i = 0; i < COMPRESSORS; i++)
        pthread_create(&compressors[i], NULL, compress, NULL);
    for (int i = 0; i < BLOCKS; i++)
        sem_wait(&compressed);
    delete_queue();
    for (int i = 0; i < COMPRESSORS; i++)
        pthread_join(compressors[i], NULL);
    return 0;
}
