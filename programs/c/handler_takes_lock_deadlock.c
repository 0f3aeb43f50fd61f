/* A handler takes a lock that the thread which it interrupts may hold. Expected: deadlock if the signal comes while it does. */
#include <pthread.h>
#include <signal.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int total;

static void add(int amount)
{
    pthread_mutex_lock(&mutex); /* FAIL */
    total += amount;
    pthread_mutex_unlock(&mutex);
}

static void *worker(void *unused)
{
    add(1);
    return unused;
}

int main(void)
{
    pthread_t thread;
    struct sigaction action = {.sa_handler = add};
    sigaction(SIGUSR1, &action, NULL);
    pthread_create(&thread, NULL, worker, NULL);
    pthread_kill(thread, SIGUSR1);
    pthread_join(thread, NULL);
}
