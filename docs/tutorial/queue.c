#include "queue.h"

void queue_put(struct queue *queue, int job)
{
    pthread_mutex_lock(&queue->mutex);
    queue->jobs[queue->put++ % ROOM] = job;
    pthread_cond_signal(&queue->changed);
    pthread_mutex_unlock(&queue->mutex);
}

int queue_take(struct queue *queue, int *job)
{
    int found = 0;
    pthread_mutex_lock(&queue->mutex);
    while (queue->taken == queue->put && !queue->closed)
        pthread_cond_wait(&queue->changed, &queue->mutex);
    if (queue->taken < queue->put) {
        *job = queue->jobs[queue->taken++ % ROOM];
        found = 1;
    }
    pthread_mutex_unlock(&queue->mutex);
    return found;
}

void queue_close(struct queue *queue)
{
    queue->closed = 1; /* an int is written at once, so no lock is needed */
    pthread_cond_broadcast(&queue->changed);
}
