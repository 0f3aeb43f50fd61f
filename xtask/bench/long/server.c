/* A server: an acceptor hands requests to workers, which look sessions up in a table and answer. The argument is the
   number of requests. The error: a worker that does not find a session creates it in a second critical section, so two
   workers may both create it. */
#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define WORKERS 3
#define SESSIONS 16
#define BACKLOG 16

struct session {
    pthread_mutex_t mutex;
    int client;
    int used;
    int requests;
};

static struct session sessions[SESSIONS * 4];
static int session_count;
static pthread_mutex_t table = PTHREAD_MUTEX_INITIALIZER;

static struct {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    int clients[BACKLOG];
    int head, tail;
    int stopped;
} backlog = { .mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

static int total_requests;
static int created;

static struct session *find(int client)
{
    struct session *found = NULL;
    pthread_mutex_lock(&table);
    for (int i = 0; i < session_count; i++)
        if (sessions[i].client == client)
            found = &sessions[i];
    pthread_mutex_unlock(&table);
    return found;
}

static struct session *create(int client)
{
    pthread_mutex_lock(&table);
    assert(session_count < SESSIONS * 4);
    struct session *session = &sessions[session_count++];
    session->client = client;
    session->used = 1;
    created++;
    pthread_mutex_unlock(&table);
    return session;
}

static void answer(struct session *session)
{
    pthread_mutex_lock(&session->mutex);
    session->requests++;
    pthread_mutex_unlock(&session->mutex);
}

static void push(int client)
{
    pthread_mutex_lock(&backlog.mutex);
    while (backlog.tail - backlog.head == BACKLOG)
        pthread_cond_wait(&backlog.changed, &backlog.mutex);
    backlog.clients[backlog.tail++ % BACKLOG] = client;
    pthread_cond_broadcast(&backlog.changed);
    pthread_mutex_unlock(&backlog.mutex);
}

static int pop(void)
{
    int client = -1;
    pthread_mutex_lock(&backlog.mutex);
    while (backlog.head == backlog.tail && !backlog.stopped)
        pthread_cond_wait(&backlog.changed, &backlog.mutex);
    if (backlog.head != backlog.tail)
        client = backlog.clients[backlog.head++ % BACKLOG];
    pthread_cond_broadcast(&backlog.changed);
    pthread_mutex_unlock(&backlog.mutex);
    return client;
}

static void stop(void)
{
    pthread_mutex_lock(&backlog.mutex);
    backlog.stopped = 1;
    pthread_cond_broadcast(&backlog.changed);
    pthread_mutex_unlock(&backlog.mutex);
}

static void *work(void *unused)
{
    int client;
    while ((client = pop()) >= 0) {
        struct session *session = find(client);
        if (!session)
            session = create(client);
        answer(session);
    }
    return unused;
}

int main(int argc, char **argv)
{
    pthread_t workers[WORKERS];
    total_requests = argc > 1 ? atoi(argv[1]) : 20;
    for (int i = 0; i < SESSIONS * 4; i++)
        pthread_mutex_init(&sessions[i].mutex, NULL);
    for (int i = 0; i < WORKERS; i++)
        pthread_create(&workers[i], NULL, work, NULL);
    for (int i = 0; i < total_requests; i++)
        push((i / 3) % SESSIONS);
    stop();
    for (int i = 0; i < WORKERS; i++)
        pthread_join(workers[i], NULL);
    int answered = 0;
    for (int i = 0; i < session_count; i++)
        answered += sessions[i].requests;
    assert(answered == total_requests);
    assert(created <= SESSIONS);
    printf("%d requests, %d sessions\n", answered, created);
    return 0;
}
