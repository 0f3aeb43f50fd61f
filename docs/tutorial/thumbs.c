/* Makes thumbnails of pictures, some at a time. Now and then it never comes to its end. */
#include "queue.h"
#include <pthread.h>
#include <stdio.h>

enum { WORKERS = 2, PICTURES = 3 };

static struct queue jobs = QUEUE_INITIALIZER;
static int done[PICTURES];

static void *work(void *unused)
{
    int picture;
    while (queue_take(&jobs, &picture))
        done[picture] = 1;
    return unused;
}

int main(void)
{
    pthread_t workers[WORKERS];
    for (int i = 0; i < WORKERS; i++)
        pthread_create(&workers[i], NULL, work, NULL);
    for (int i = 0; i < PICTURES; i++)
        queue_put(&jobs, i);
    queue_close(&jobs);
    for (int i = 0; i < WORKERS; i++)
        pthread_join(workers[i], NULL);
    printf("%d thumbnails\n", done[0] + done[1] + done[2]);
    return 0;
}
