/* A cache of sessions with reference counts and a sweeper that evicts old ones. The error: `find` releases the lock of
   the cache before it takes the reference, so that the sweeper may evict a session that somebody just found. */
#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define BUCKETS 4
#define CLIENTS 2
#define REQUESTS 4

struct session {
    int key;
    int references;
    int last_used;
    int closed;
    struct session *next;
};

struct cache {
    pthread_mutex_t mutex;
    struct session *buckets[BUCKETS];
    int clock;
    int size;
};

static struct cache sessions = {.mutex = PTHREAD_MUTEX_INITIALIZER};
static struct session *closed_sessions[64];
static int number_closed;

static struct session **bucket_of(struct cache *cache, int key)
{
    return &cache->buckets[key % BUCKETS];
}

static struct session *lookup(struct cache *cache, int key)
{
    struct session *session = *bucket_of(cache, key);
    while (session && session->key != key)
        session = session->next;
    return session;
}

static struct session *open_session(struct cache *cache, int key)
{
    struct session *session = calloc(1, sizeof *session);
    session->key = key;
    session->next = *bucket_of(cache, key);
    *bucket_of(cache, key) = session;
    cache->size++;
    return session;
}

static void acquire(struct session *session)
{
    session->references++;
}

static void release(struct cache *cache, struct session *session)
{
    pthread_mutex_lock(&cache->mutex);
    session->references--;
    session->last_used = ++cache->clock;
    pthread_mutex_unlock(&cache->mutex);
}

static struct session *find(struct cache *cache, int key)
{
    pthread_mutex_lock(&cache->mutex);
    struct session *session = lookup(cache, key);
    if (!session) {
        session = open_session(cache, key);
        acquire(session);
        pthread_mutex_unlock(&cache->mutex);
        return session;
    }
    pthread_mutex_unlock(&cache->mutex);
    acquire(session);
    return session;
}

static int is_idle(const struct session *session)
{
    return session->references == 0;
}

static void unlink_session(struct cache *cache, struct session **link)
{
    struct session *session = *link;
    *link = session->next;
    session->closed = 1;
    /* Memory stays, so that late users are noticed. */
    closed_sessions[number_closed++] = session;
    cache->size--;
}

static void sweep(struct cache *cache)
{
    pthread_mutex_lock(&cache->mutex);
    for (int i = 0; i < BUCKETS; i++) {
        struct session **link = &cache->buckets[i];
        while (*link) {
            if (is_idle(*link))
                unlink_session(cache, link);
            else
                link = &(*link)->next;
        }
    }
    pthread_mutex_unlock(&cache->mutex);
}

static void use(const struct session *session)
{
    assert(!session->closed);
}

static void *client(void *argument)
{
    int seed = (int)(size_t)argument;
    for (int i = 0; i < REQUESTS; i++) {
        struct session *session = find(&sessions, (seed + i) % 3);
        use(session);
        release(&sessions, session);
    }
    return NULL;
}

static void *sweeper(void *unused)
{
    for (int i = 0; i < 3; i++)
        sweep(&sessions);
    return unused;
}

int main(void)
{
    pthread_t clients[CLIENTS], cleaner;
    for (size_t i = 0; i < CLIENTS; i++)
        pthread_create(&clients[i], NULL, client, (void *)i);
    pthread_create(&cleaner, NULL, sweeper, NULL);
    for (int i = 0; i < CLIENTS; i++)
        pthread_join(clients[i], NULL);
    pthread_join(cleaner, NULL);
    printf("%d sessions\n", sessions.size);
    return 0;
}
