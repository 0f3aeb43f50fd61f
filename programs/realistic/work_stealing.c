/* Workers with a queue each; one whose queue is empty steals half of another's. The error: `steal` locks the victim's
   queue while it holds its own, so that two thieves wait for each other. */
#include <assert.h>
#include <pthread.h>
#include <stdio.h>

#define WORKERS 3
#define TASKS 5
#define PLACES 32

struct queue {
    pthread_mutex_t mutex;
    int tasks[PLACES];
    int length;
};

struct worker {
    pthread_t thread;
    struct queue queue;
    int done;
    int number;
};

static struct worker workers[WORKERS];

static void push(struct queue *queue, int task)
{
    assert(queue->length < PLACES);
    queue->tasks[queue->length++] = task;
}

static int pop(struct queue *queue)
{
    return queue->length > 0 ? queue->tasks[--queue->length] : -1;
}

static int take_own(struct worker *worker)
{
    pthread_mutex_lock(&worker->queue.mutex);
    int task = pop(&worker->queue);
    pthread_mutex_unlock(&worker->queue.mutex);
    return task;
}

static int half_of(const struct queue *queue)
{
    return (queue->length + 1) / 2;
}

static void move_tasks(struct queue *from, struct queue *to, int count)
{
    while (count-- > 0)
        push(to, pop(from));
}

static int steal(struct worker *thief, struct worker *victim)
{
    pthread_mutex_lock(&thief->queue.mutex);
    pthread_mutex_lock(&victim->queue.mutex);
    int count = half_of(&victim->queue);
    move_tasks(&victim->queue, &thief->queue, count);
    pthread_mutex_unlock(&victim->queue.mutex);
    pthread_mutex_unlock(&thief->queue.mutex);
    return count;
}

static struct worker *victim_of(const struct worker *thief, int attempt)
{
    return &workers[(thief->number + 1 + attempt) % WORKERS];
}

static int find_more(struct worker *worker)
{
    for (int i = 0; i < WORKERS - 1; i++)
        if (steal(worker, victim_of(worker, i)) > 0)
            return 1;
    return 0;
}

static int expensive(int task)
{
    int value = task;
    for (int i = 0; i < 3; i++)
        value = value * 7 % 101;
    return value;
}

static void *work(void *argument)
{
    struct worker *worker = argument;
    do {
        int task;
        while ((task = take_own(worker)) >= 0)
            worker->done += expensive(task) >= 0;
    } while (find_more(worker));
    return NULL;
}

static void prepare(struct worker *worker, int number, int tasks)
{
    pthread_mutex_init(&worker->queue.mutex, NULL);
    worker->number = number;
    for (int i = 0; i < tasks; i++)
        push(&worker->queue, number * TASKS + i);
}

int main(void)
{
    int done = 0;
    for (int i = 0; i < WORKERS; i++)
        prepare(&workers[i], i, i == 0 ? TASKS : 1);
    for (int i = 0; i < WORKERS; i++)
        pthread_create(&workers[i].thread, NULL, work, &workers[i]);
    for (int i = 0; i < WORKERS; i++) {
        pthread_join(workers[i].thread, NULL);
        done += workers[i].done;
    }
    printf("%d tasks\n", done);
    return 0;
}
