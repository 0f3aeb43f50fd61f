/* A thread blocks a signal, sends it to itself and reads it from a descriptor. Other threads do not block that signal
 * and must not get it.
 * Expected: exit 0. */
#define _GNU_SOURCE
#include "../support.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

static void check_read(int fd, int number)
{
    struct signalfd_siginfo info;
    CHECK(read(fd, &info, sizeof info) == sizeof info);
    CHECK((int)info.ssi_signo == number);
}

static void *worker(void *unused)
{
    sigset_t set, before, now;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &set, &before);
    CHECK(!sigismember(&before, SIGUSR1));
    int fd = signalfd(-1, &set, SFD_CLOEXEC);
    CHECK(fd >= 0);
    pthread_kill(pthread_self(), SIGUSR1);
    sched_yield();
    check_read(fd, SIGUSR1);
    raise(SIGUSR1);
    sched_yield();
    check_read(fd, SIGUSR1);
    close(fd);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_sigmask(SIG_SETMASK, NULL, &now);
    CHECK(!sigismember(&now, SIGUSR1));
    return unused;
}

static int handled;

static void handle(int number)
{
    (void)number;
    handled++;
}

int main(void)
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, worker, NULL) == 0);
    for (int i = 0; i < 4; i++) {
        sigset_t set, before;
        sigemptyset(&set);
        sigaddset(&set, SIGUSR2);
        pthread_sigmask(SIG_BLOCK, &set, &before);
        CHECK(!sigismember(&before, SIGUSR1) && !sigismember(&before, SIGUSR2));
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        sched_yield();
    }
    pthread_join(thread, NULL);

    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    signal(SIGUSR2, handle);
    int fd = signalfd(-1, &set, SFD_CLOEXEC);
    CHECK(fd >= 0);
    raise(SIGUSR2);
    check_read(fd, SIGUSR2);
    CHECK(handled == 0);
    return 0;
}
