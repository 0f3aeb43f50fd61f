/* A session is closed by main between a worker's check and its use. Expected: SIGSEGV at the use. */
#include <pthread.h>
#include <stddef.h>

struct session {
    int hits;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct session only_session, *session = &only_session;

static void *use(void *unused)
{
    pthread_mutex_lock(&mutex);
    int is_open = session != NULL;
    pthread_mutex_unlock(&mutex);
    if (is_open) {
        pthread_mutex_lock(&mutex);
        session->hits++; /* FAIL */
        pthread_mutex_unlock(&mutex);
    }
    return unused;
}

int main(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, use, NULL);
    pthread_mutex_lock(&mutex);
    session = NULL;
    pthread_mutex_unlock(&mutex);
    pthread_join(thread, NULL);
    return 0;
}
