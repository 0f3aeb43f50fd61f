/* Signals read from a descriptor, which an event loop waits for together with others. Expected: exit 0. */
#define _GNU_SOURCE
#include "../support.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

static int fds[2];

static void *worker(void *unused)
{
    CHECK(write(fds[1], "x", 1) == 1);
    kill(getpid(), SIGUSR1);
    kill(getpid(), SIGUSR2);
    return unused;
}

int main(void)
{
    pthread_t thread;
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    CHECK(pipe(fds) == 0);
    int signals = signalfd(-1, &set, SFD_CLOEXEC);
    CHECK(signals >= 0);
    pthread_create(&thread, NULL, worker, NULL);
    int bytes = 0, seen = 0;
    while (bytes < 1 || seen < 2) {
        struct pollfd all[] = {{fds[0], POLLIN, 0}, {signals, POLLIN, 0}};
        CHECK(poll(all, 2, -1) > 0);
        if (all[0].revents) {
            char byte;
            CHECK(read(fds[0], &byte, 1) == 1);
            bytes++;
        }
        if (all[1].revents) {
            struct signalfd_siginfo info;
            CHECK(read(signals, &info, sizeof info) == sizeof info);
            CHECK(info.ssi_signo == SIGUSR1 || info.ssi_signo == SIGUSR2);
            seen++;
        }
    }
    pthread_join(thread, NULL);
}
