// Workers of a server count themselves out without the lock that they hold when they count themselves in. A count is lost,
// the last one never sees zero, and the QUIT message is never sent.
// pattern: lost update
// line: server->active = server->active - 1;
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define WORKERS 2

enum kind { REQUEST, QUIT };

struct message {
    enum kind kind;
    int value;
    struct message *next;
};

struct server {
    pthread_mutex_t lock;
    pthread_cond_t arrived;
    struct message *inbox;
    int active;
    int handled;
};

static void server_post(struct server *server, enum kind kind, int value) {
    struct message *message = calloc(1, sizeof *message);
    message->kind = kind;
    message->value = value;
    pthread_mutex_lock(&server->lock);
    message->next = server->inbox;
    server->inbox = message;
    pthread_cond_signal(&server->arrived);
    pthread_mutex_unlock(&server->lock);
}

static struct message *server_receive(struct server *server) {
    pthread_mutex_lock(&server->lock);
    while (server->inbox == NULL)
        pthread_cond_wait(&server->arrived, &server->lock);
    struct message *message = server->inbox;
    server->inbox = message->next;
    pthread_mutex_unlock(&server->lock);
    return message;
}

static void worker_enter(struct server *server) {
    pthread_mutex_lock(&server->lock);
    server->active = server->active + 1;
    pthread_mutex_unlock(&server->lock);
}

static void worker_leave(struct server *server) {
    server->active = server->active - 1;
    if (server->active == 0)
        server_post(server, QUIT, 0);
}

static void *worker(void *arg) {
    struct server *server = arg;
    server_post(server, REQUEST, 7);
    worker_leave(server);
    return NULL;
}

static void serve(struct server *server) {
    for (;;) {
        struct message *message = server_receive(server);
        if (message->kind == QUIT) {
            free(message);
            return;
        }
        server->handled += message->value;
        free(message);
    }
}

int main(void) {
    struct server *server = calloc(1, sizeof *server);
    pthread_mutex_init(&server->lock, NULL);
    pthread_cond_init(&server->arrived, NULL);
    for (int i = 0; i < WORKERS; i++)
        worker_enter(server);
    pthread_t threads[WORKERS];
    for (int i = 0; i < WORKERS; i++)
        pthread_create(&threads[i], NULL, worker, server);
    serve(server);
    for (int i = 0; i < WORKERS; i++)
        pthread_join(threads[i], NULL);
    printf("handled %d\n", server->handled);
    free(server);
    return 0;
}
