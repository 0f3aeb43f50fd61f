/* A signal that is pending already ends every wait that unblocks it, and is read from a descriptor that is made for it afterwards.
 * Expected: each wait fails with EINTR after its handler ran, and each descriptor reports its signal. */
#define _GNU_SOURCE
#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/signalfd.h>
#include <unistd.h>

static volatile sig_atomic_t handled;

static void handle(int signal)
{
    (void)signal;
    handled++;
}

static sigset_t set_of(int signal)
{
    sigset_t set;
    sigemptyset(&set);
    if (signal)
        sigaddset(&set, signal);
    return set;
}

static int wait_on_poll(const int *pipe_ends, const sigset_t *mask)
{
    struct pollfd fd = {.fd = pipe_ends[0], .events = POLLIN};
    return ppoll(&fd, 1, NULL, mask);
}

static int wait_on_select(const int *pipe_ends, const sigset_t *mask)
{
    fd_set read_set;
    FD_ZERO(&read_set);
    FD_SET(pipe_ends[0], &read_set);
    return pselect(pipe_ends[0] + 1, &read_set, NULL, NULL, NULL, mask);
}

static int wait_on_epoll(const int *pipe_ends, const sigset_t *mask)
{
    int set = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = pipe_ends[0]};
    assert(epoll_ctl(set, EPOLL_CTL_ADD, pipe_ends[0], &event) == 0);
    int result = epoll_pwait(set, &event, 1, -1, mask);
    int error = errno;
    close(set);
    errno = error;
    return result;
}

static void *send_to_process(void *unused)
{
    kill(getpid(), SIGTERM);
    return unused;
}

static void check_waits(void)
{
    int (*const waits[])(const int *, const sigset_t *) = {wait_on_poll, wait_on_select, wait_on_epoll};
    int pipe_ends[2];
    assert(pipe(pipe_ends) == 0);
    sigset_t term = set_of(SIGTERM), none = set_of(0);
    pthread_sigmask(SIG_BLOCK, &term, NULL);
    for (int i = 0; i < 3; i++) {
        handled = 0;
        kill(getpid(), SIGTERM);
        assert(handled == 0);
        assert(waits[i](pipe_ends, &none) == -1 && errno == EINTR && handled == 1);
        pthread_t sender;
        pthread_create(&sender, NULL, send_to_process, NULL);
        assert(waits[i](pipe_ends, &none) == -1 && errno == EINTR && handled == 2);
        pthread_join(sender, NULL);
    }
    close(pipe_ends[0]);
    close(pipe_ends[1]);
}

static void check_descriptors(void)
{
    sigset_t both = set_of(SIGUSR1);
    sigaddset(&both, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &both, NULL);
    raise(SIGUSR1);
    sigset_t first = set_of(SIGUSR1);
    int fd = signalfd(-1, &first, 0);
    struct signalfd_siginfo info;
    assert(read(fd, &info, sizeof info) == sizeof info && info.ssi_signo == SIGUSR1);
    kill(getpid(), SIGUSR2);
    assert(signalfd(fd, &both, 0) == fd);
    assert(read(fd, &info, sizeof info) == sizeof info && info.ssi_signo == SIGUSR2);
    close(fd);
}

int main(void)
{
    struct sigaction action = {.sa_handler = handle};
    sigaction(SIGTERM, &action, NULL);
    check_waits();
    check_descriptors();
    return 0;
}
