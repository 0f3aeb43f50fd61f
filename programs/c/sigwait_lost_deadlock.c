/* Two requests are sent as two signals of the same number. If nobody has taken the first one yet, the second is lost, and the
 * worker waits for it for ever. Expected: deadlock in some schedules. */
#include "../support.h"

#include <pthread.h>
#include <signal.h>

static sigset_t set;

static void *worker(void *unused)
{
    int signal;
    for (int requests = 0; requests < 2; requests++)
        sigwait(&set, &signal);
    return unused;
}

int main(void)
{
    pthread_t thread;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    pthread_create(&thread, NULL, worker, NULL);
    pthread_kill(thread, SIGUSR1);
    pthread_kill(thread, SIGUSR1);
    pthread_join(thread, NULL);
}
