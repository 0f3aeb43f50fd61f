/* The flag is looked at, then pause is called; the signal comes in between. Expected: deadlock in that schedule. */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

static volatile sig_atomic_t flag;

static void handler(int signal)
{
    (void)signal;
    flag = 1;
}

static void *worker(void *main_thread)
{
    pthread_kill(*(pthread_t *)main_thread, SIGUSR1);
    return NULL;
}

int main(void)
{
    pthread_t thread, self = pthread_self();
    struct sigaction action = {.sa_handler = handler};
    sigaction(SIGUSR1, &action, NULL);
    pthread_create(&thread, NULL, worker, &self);
    if (!flag) {
        sched_yield();
        pause(); /* FAIL */
    }
    pthread_join(thread, NULL);
}
