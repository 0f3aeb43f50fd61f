/* A handler and the code that it interrupts count in the same variable, without blocking the signal: one of the two counts is
 * lost. Expected: exit 1 if the signal comes between reading and writing. */
#include <pthread.h>
#include <sched.h>
#include <signal.h>

static volatile sig_atomic_t counted;

static void count(int signal)
{
    (void)signal;
    int before = counted;
    sched_yield();
    counted = before + 1;
}

static void *worker(void *unused)
{
    count(0);
    return unused;
}

int main(void)
{
    pthread_t thread;
    struct sigaction action = {.sa_handler = count};
    sigaction(SIGUSR1, &action, NULL);
    pthread_create(&thread, NULL, worker, NULL);
    pthread_kill(thread, SIGUSR1);
    pthread_join(thread, NULL);
    return counted != 2;
}
