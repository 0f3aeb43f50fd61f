/* A handler crashes in the thread that takes the signal. Expected: SIGSEGV there. */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>

static int value, *place = &value;

static void handler(int signal)
{
    *place = signal; /* FAIL */
}

static void *worker(void *unused)
{
    sched_yield();
    sched_yield();
    return unused;
}

int main(void)
{
    pthread_t thread;
    struct sigaction action = {.sa_handler = handler};
    sigaction(SIGUSR1, &action, NULL);
    pthread_create(&thread, NULL, worker, NULL);
    pthread_kill(thread, SIGUSR1);
    sched_yield();
    place = NULL;
    pthread_join(thread, NULL);
}
