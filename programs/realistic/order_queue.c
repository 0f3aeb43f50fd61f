/* A bounded queue of orders between web servers and warehouses. The error: a warehouse that waits for an order checks with
   `if` instead of `while`, and another warehouse may take the order first. */
#include <assert.h>
#include <pthread.h>
#include <stdio.h>

#define CAPACITY 2
#define SERVERS 2
#define WAREHOUSES 2
#define ORDERS 3

struct order {
    int server;
    int number;
};

struct queue {
    pthread_mutex_t mutex;
    pthread_cond_t not_empty, not_full;
    struct order orders[CAPACITY];
    int first, length;
    int closed;
};

static struct queue queue = {
    .mutex = PTHREAD_MUTEX_INITIALIZER,
    .not_empty = PTHREAD_COND_INITIALIZER,
    .not_full = PTHREAD_COND_INITIALIZER,
};
static int delivered[SERVERS];
static pthread_mutex_t delivery = PTHREAD_MUTEX_INITIALIZER;

static int is_empty(const struct queue *queue)
{
    return queue->length == 0;
}

static int is_full(const struct queue *queue)
{
    return queue->length == CAPACITY;
}

static void append(struct queue *queue, struct order order)
{
    queue->orders[(queue->first + queue->length) % CAPACITY] = order;
    queue->length++;
}

static struct order remove_first(struct queue *queue)
{
    struct order order = queue->orders[queue->first];
    queue->first = (queue->first + 1) % CAPACITY;
    queue->length--;
    assert(queue->length >= 0);
    return order;
}

static void put(struct queue *queue, struct order order)
{
    pthread_mutex_lock(&queue->mutex);
    while (is_full(queue))
        pthread_cond_wait(&queue->not_full, &queue->mutex);
    append(queue, order);
    pthread_cond_signal(&queue->not_empty);
    pthread_mutex_unlock(&queue->mutex);
}

static int get(struct queue *queue, struct order *order)
{
    int found = 0;
    pthread_mutex_lock(&queue->mutex);
    if (is_empty(queue) && !queue->closed)
        pthread_cond_wait(&queue->not_empty, &queue->mutex);
    if (!queue->closed || !is_empty(queue)) {
        *order = remove_first(queue);
        found = 1;
        pthread_cond_signal(&queue->not_full);
    }
    pthread_mutex_unlock(&queue->mutex);
    return found;
}

static void close_queue(struct queue *queue)
{
    pthread_mutex_lock(&queue->mutex);
    queue->closed = 1;
    pthread_cond_broadcast(&queue->not_empty);
    pthread_mutex_unlock(&queue->mutex);
}

static void deliver(const struct order *order)
{
    pthread_mutex_lock(&delivery);
    delivered[order->server]++;
    pthread_mutex_unlock(&delivery);
}

static void *server(void *argument)
{
    struct order order = {.server = (int)(size_t)argument};
    for (order.number = 0; order.number < ORDERS; order.number++)
        put(&queue, order);
    return NULL;
}

static void *warehouse(void *unused)
{
    struct order order;
    while (get(&queue, &order))
        deliver(&order);
    return unused;
}

int main(void)
{
    pthread_t servers[SERVERS], warehouses[WAREHOUSES];
    for (int i = 0; i < WAREHOUSES; i++)
        pthread_create(&warehouses[i], NULL, warehouse, NULL);
    for (size_t i = 0; i < SERVERS; i++)
        pthread_create(&servers[i], NULL, server, (void *)i);
    for (int i = 0; i < SERVERS; i++)
        pthread_join(servers[i], NULL);
    close_queue(&queue);
    for (int i = 0; i < WAREHOUSES; i++)
        pthread_join(warehouses[i], NULL);
    printf("%d and %d orders\n", delivered[0], delivered[1]);
    return 0;
}
