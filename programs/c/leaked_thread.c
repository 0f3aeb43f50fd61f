/* A thread is neither joined nor detached. Expected: exit 0 with a warning, in every schedule. */
#include <pthread.h>
#include <semaphore.h>

static sem_t is_done;

static void *worker(void *unused)
{
    sem_post(&is_done);
    return unused;
}

int main(void)
{
    pthread_t thread;
    sem_init(&is_done, 0, 0);
    pthread_create(&thread, NULL, worker, NULL);
    sem_wait(&is_done);
    return 0;
}
