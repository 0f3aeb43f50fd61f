/* A thread takes all signals by sigwait; one of them makes it end. Expected: exit 0, no handler runs elsewhere. */
#include "../support.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

static int taken;

static void *take(void *argument)
{
    sigset_t *set = argument;
    int signal;
    for (;;) {
        CHECK(sigwait(set, &signal) == 0);
        if (signal == SIGTERM)
            return NULL;
        CHECK(signal == SIGUSR1);
        taken++;
    }
}

int main(void)
{
    sigset_t set;
    pthread_t thread;
    struct timespec none = {0, 0}, ten_ms = {0, 10000000};
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    CHECK(sigtimedwait(&set, NULL, &none) == -1);
    CHECK(sigtimedwait(&set, NULL, &ten_ms) == -1);
    raise(SIGUSR1);
    siginfo_t info;
    CHECK(sigwaitinfo(&set, &info) == SIGUSR1 && info.si_signo == SIGUSR1);
    pthread_create(&thread, NULL, take, &set);
    CHECK(kill(getpid(), SIGUSR1) == 0);
    CHECK(pthread_kill(thread, SIGUSR1) == 0);
    CHECK(pthread_kill(thread, SIGTERM) == 0);
    pthread_join(thread, NULL);
    /* Its own come first: that to the process may come too late. */
    CHECK(taken == 1 || taken == 2);
}
