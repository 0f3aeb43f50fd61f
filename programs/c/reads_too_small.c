/* Reads with too little room fail at once: of signals, of a counter, of a timer. Expected: exit 0. */
#define _GNU_SOURCE
#include "../support.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <unistd.h>

static int signals, counter, timer;

static void too_small(int fd, size_t size)
{
    char room[sizeof(struct signalfd_siginfo)];
    struct iovec vector = {room, size};
    errno = 0;
    CHECK(read(fd, room, size) == -1 && errno == EINVAL);
    errno = 0;
    CHECK(readv(fd, &vector, 1) == -1 && errno == EINVAL);
}

static void *worker(void *unused)
{
    too_small(signals, 10);
    too_small(signals, sizeof(struct signalfd_siginfo) - 1);
    too_small(counter, sizeof(uint64_t) - 1);
    too_small(timer, 1);
    kill(getpid(), SIGUSR1);
    return unused;
}

int main(void)
{
    pthread_t thread;
    sigset_t set;
    struct signalfd_siginfo info;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    signals = signalfd(-1, &set, 0);
    counter = eventfd(0, 0);
    timer = timerfd_create(CLOCK_MONOTONIC, 0);
    CHECK(signals >= 0 && counter >= 0 && timer >= 0);
    pthread_create(&thread, NULL, worker, NULL);
    CHECK(read(signals, &info, sizeof info) == sizeof info);
    CHECK(info.ssi_signo == SIGUSR1);
    too_small(dup(signals), 10);
    pthread_join(thread, NULL);
    return 0;
}
