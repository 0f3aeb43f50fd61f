/* A handler makes calls fail with EINTR or restart: semaphores, sleeps, pipes, poll, futexes, with and without
 * SA_RESTART. Expected: exit 0. */
#define _GNU_SOURCE
#include "../support.h"

#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

static sem_t never, begun;
static int fds[2];
static int word;
static __thread volatile sig_atomic_t handled;

static void handler(int signal)
{
    (void)signal;
    handled++;
}

/* Interrupted for good, or not at all if the signal came too early: then by the timeout. */
static void *interrupted(void *unused)
{
    struct timespec time = {1, 0}, left;
    sem_post(&begun);
    if (nanosleep(&time, &left) == -1)
        CHECK(errno == EINTR && handled > 0 && (left.tv_sec > 0 || left.tv_nsec > 0));
    sem_post(&begun);
    struct pollfd fd = {fds[0], POLLIN, 0};
    if (poll(&fd, 1, 1000) == -1)
        CHECK(errno == EINTR && handled > 0);
    sem_post(&begun);
    if (syscall(SYS_futex, &word, FUTEX_WAIT, 0, &time, NULL, 0) == -1)
        CHECK(errno == ETIMEDOUT || (errno == EINTR && handled > 0));
    sem_post(&begun);
    struct timespec soon = deadline_in_ms(CLOCK_REALTIME, 1000);
    if (sem_timedwait(&never, &soon) == -1)
        CHECK(errno == ETIMEDOUT || (errno == EINTR && handled > 0));
    return unused;
}

static void *restarted(void *unused)
{
    char byte;
    sem_post(&begun);
    CHECK(read(fds[0], &byte, 1) == 1 && byte == 'x');
    CHECK(sem_wait(&never) == 0);
    return unused;
}

int main(void)
{
    pthread_t thread;
    struct sigaction action = {.sa_handler = handler};
    sigaction(SIGUSR1, &action, NULL);
    action.sa_flags = SA_RESTART;
    sigaction(SIGUSR2, &action, NULL);
    sem_init(&never, 0, 0);
    sem_init(&begun, 0, 0);
    CHECK(pipe(fds) == 0);
    pthread_create(&thread, NULL, interrupted, NULL);
    for (int i = 0; i < 4; i++) {
        sem_wait(&begun);
        pthread_kill(thread, SIGUSR1);
    }
    pthread_join(thread, NULL);
    pthread_create(&thread, NULL, restarted, NULL);
    sem_wait(&begun);
    pthread_kill(thread, SIGUSR2);
    CHECK(write(fds[1], "x", 1) == 1);
    pthread_kill(thread, SIGUSR2);
    sem_post(&never);
    pthread_join(thread, NULL);
}
