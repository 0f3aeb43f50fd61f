/* A pool of database connections: a semaphore counts the free ones, which are in a list. The error: `give_back` links the
   connection into the list without the lock that `borrow` takes. */
#include <assert.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>

#define CONNECTIONS 2
#define CLIENTS 3
#define QUERIES 3

struct connection {
    int number;
    int borrowed;
    int queries;
    struct connection *next;
};

struct pool {
    pthread_mutex_t mutex;
    sem_t available;
    struct connection *free;
    struct connection connections[CONNECTIONS];
};

static struct pool pool;

static void link_free(struct pool *pool, struct connection *connection)
{
    connection->next = pool->free;
    pool->free = connection;
}

static struct connection *unlink_free(struct pool *pool)
{
    struct connection *connection = pool->free;
    assert(connection != NULL);
    pool->free = connection->next;
    return connection;
}

static void open_pool(struct pool *pool)
{
    pthread_mutex_init(&pool->mutex, NULL);
    sem_init(&pool->available, 0, CONNECTIONS);
    for (int i = 0; i < CONNECTIONS; i++) {
        pool->connections[i].number = i;
        link_free(pool, &pool->connections[i]);
    }
}

static struct connection *borrow(struct pool *pool)
{
    sem_wait(&pool->available);
    pthread_mutex_lock(&pool->mutex);
    struct connection *connection = unlink_free(pool);
    pthread_mutex_unlock(&pool->mutex);
    assert(!connection->borrowed);
    connection->borrowed = 1;
    return connection;
}

static void give_back(struct pool *pool, struct connection *connection)
{
    connection->borrowed = 0;
    link_free(pool, connection);
    sem_post(&pool->available);
}

static int run_query(struct connection *connection, int argument)
{
    connection->queries++;
    return connection->number * 100 + argument;
}

static int rows_of(int answer)
{
    int rows = 0;
    while (answer > 0) {
        rows += answer % 10;
        answer /= 10;
    }
    return rows;
}

static void *client(void *argument)
{
    int own = (int)(size_t)argument;
    size_t rows = 0;
    for (int i = 0; i < QUERIES; i++) {
        struct connection *connection = borrow(&pool);
        rows += rows_of(run_query(connection, own + i));
        give_back(&pool, connection);
    }
    return (void *)rows;
}

static int total_queries(const struct pool *pool)
{
    int total = 0;
    for (int i = 0; i < CONNECTIONS; i++)
        total += pool->connections[i].queries;
    return total;
}

int main(void)
{
    pthread_t clients[CLIENTS];
    open_pool(&pool);
    for (size_t i = 0; i < CLIENTS; i++)
        pthread_create(&clients[i], NULL, client, (void *)i);
    for (int i = 0; i < CLIENTS; i++)
        pthread_join(clients[i], NULL);
    printf("%d queries\n", total_queries(&pool));
    return 0;
}
