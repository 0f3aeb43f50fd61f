/* main destroys a mutex that a worker holds. Expected: exit 0 with a warning, in every schedule. */
#include <pthread.h>
#include <semaphore.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static sem_t is_locked, may_unlock;

static void *holder(void *unused)
{
    pthread_mutex_lock(&mutex);
    sem_post(&is_locked);
    sem_wait(&may_unlock);
    pthread_mutex_unlock(&mutex);
    return unused;
}

int main(void)
{
    pthread_t thread;
    sem_init(&is_locked, 0, 0);
    sem_init(&may_unlock, 0, 0);
    pthread_create(&thread, NULL, holder, NULL);
    sem_wait(&is_locked);
    pthread_mutex_destroy(&mutex);
    sem_post(&may_unlock);
    pthread_join(thread, NULL);
    return 0;
}
