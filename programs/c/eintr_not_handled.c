/* A wait for a semaphore is ended by a handler, and the program takes that for the semaphore. Expected: exit 1 if the signal
 * comes before the semaphore is posted. */
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>

static sem_t ready;
static int value;

static void handler(int signal)
{
    (void)signal;
}

static void *worker(void *result)
{
    sem_wait(&ready);
    *(int *)result = value;
    return NULL;
}

int main(void)
{
    pthread_t thread;
    int result = 0;
    struct sigaction action = {.sa_handler = handler};
    sigaction(SIGUSR1, &action, NULL);
    sem_init(&ready, 0, 0);
    pthread_create(&thread, NULL, worker, &result);
    pthread_kill(thread, SIGUSR1);
    sched_yield();
    value = 42;
    sem_post(&ready);
    pthread_join(thread, NULL);
    return result != 42;
}
