/* Connections with a state machine. A receiver handles packets, and a supervisor closes idle connections. The error: the
   receiver checks the state, and changes it in a second step; in between, the supervisor may close the connection. */
#include <assert.h>
#include <pthread.h>
#include <stdio.h>

#define CONNECTIONS 3
#define PACKETS 6

enum state { CLOSED, CONNECTING, OPEN, CLOSING };
enum packet { SYN, DATA, FIN };

struct connection {
    pthread_mutex_t mutex;
    enum state state;
    int received;
    int idle;
};

static struct connection connections[CONNECTIONS];

static enum state state_of(struct connection *connection)
{
    pthread_mutex_lock(&connection->mutex);
    enum state state = connection->state;
    pthread_mutex_unlock(&connection->mutex);
    return state;
}

static int may_follow(enum state from, enum state to)
{
    switch (to) {
    case CONNECTING: return from == CLOSED;
    case OPEN: return from == CONNECTING || from == OPEN;
    case CLOSING: return from == OPEN || from == CONNECTING;
    case CLOSED: return from == CLOSING;
    }
    return 0;
}

static void change(struct connection *connection, enum state to)
{
    pthread_mutex_lock(&connection->mutex);
    assert(may_follow(connection->state, to));
    connection->state = to;
    pthread_mutex_unlock(&connection->mutex);
}

static void count_packet(struct connection *connection)
{
    pthread_mutex_lock(&connection->mutex);
    connection->received++;
    connection->idle = 0;
    pthread_mutex_unlock(&connection->mutex);
}

static void handle(struct connection *connection, enum packet packet)
{
    enum state state = state_of(connection);
    switch (packet) {
    case SYN:
        if (state == CLOSED)
            change(connection, CONNECTING);
        break;
    case DATA:
        if (state == CONNECTING || state == OPEN) {
            count_packet(connection);
            change(connection, OPEN);
        }
        break;
    case FIN:
        if (state == OPEN)
            change(connection, CLOSING);
        break;
    }
}

static enum packet next_packet(int at)
{
    static const enum packet sequence[PACKETS] = {SYN, DATA, DATA, FIN, SYN, DATA};
    return sequence[at % PACKETS];
}

static void *receiver(void *argument)
{
    size_t own = (size_t)argument;
    for (int i = 0; i < PACKETS; i++)
        handle(&connections[own], next_packet(i));
    return NULL;
}

static int is_idle(struct connection *connection)
{
    pthread_mutex_lock(&connection->mutex);
    int idle = ++connection->idle > 1;
    pthread_mutex_unlock(&connection->mutex);
    return idle;
}

static void close_if_idle(struct connection *connection)
{
    pthread_mutex_lock(&connection->mutex);
    if (connection->state == CLOSING)
        connection->state = CLOSED;
    else if (connection->state == OPEN && connection->idle > 1)
        connection->state = CLOSING;
    pthread_mutex_unlock(&connection->mutex);
}

static void *supervisor(void *unused)
{
    for (int round = 0; round < 4; round++)
        for (int i = 0; i < CONNECTIONS; i++)
            if (is_idle(&connections[i]))
                close_if_idle(&connections[i]);
    return unused;
}

int main(void)
{
    pthread_t receivers[CONNECTIONS], watcher;
    for (int i = 0; i < CONNECTIONS; i++)
        pthread_mutex_init(&connections[i].mutex, NULL);
    for (size_t i = 0; i < CONNECTIONS; i++)
        pthread_create(&receivers[i], NULL, receiver, (void *)i);
    pthread_create(&watcher, NULL, supervisor, NULL);
    for (int i = 0; i < CONNECTIONS; i++)
        pthread_join(receivers[i], NULL);
    pthread_join(watcher, NULL);
    puts("done");
    return 0;
}
