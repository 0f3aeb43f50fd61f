#include <pthread.h>

enum { ROOM = 16 };

/* Jobs, first in, first out. Who takes waits until there is one, or until no more will come. */
struct queue {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    int jobs[ROOM], put, taken;
    int closed;
};

#define QUEUE_INITIALIZER { .mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER }

void queue_put(struct queue *queue, int job);
int queue_take(struct queue *queue, int *job); /* 0: none is left and none will come */
void queue_close(struct queue *queue);
