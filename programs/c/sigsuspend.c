/* sigsuspend unblocks and waits in one step, so that no signal is missed. Expected: exit 0. */
#include "../support.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

static volatile sig_atomic_t handled;

static void handler(int signal)
{
    (void)signal;
    handled++;
}

static void *worker(void *main_thread)
{
    for (int i = 0; i < 3; i++)
        pthread_kill(*(pthread_t *)main_thread, SIGUSR1);
    return NULL;
}

int main(void)
{
    pthread_t thread, self = pthread_self();
    sigset_t set, before;
    struct sigaction action = {.sa_handler = handler};
    sigaction(SIGUSR1, &action, NULL);
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &set, &before);
    pthread_create(&thread, NULL, worker, &self);
    while (handled == 0)
        CHECK(sigsuspend(&before) == -1 && errno == EINTR);
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    CHECK(sigismember(&before, SIGUSR1));
    pthread_join(thread, NULL);
    CHECK(handled <= 3);
}
