/* Timers of all kinds, by virtual time: alarm, setitimer, timer_create with a signal and with a thread, timerfd.
 * Expected: exit 0, at once. */
#define _GNU_SOURCE
#include "../support.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <unistd.h>

static volatile sig_atomic_t alarms, timed;
static sem_t called;

static void on_alarm(int signal)
{
    (void)signal;
    alarms++;
}

static void on_timer(int signal, siginfo_t *info, void *context)
{
    (void)signal, (void)context;
    CHECK(info->si_code == SI_TIMER && info->si_value.sival_int == 7);
    timed++;
}

static void call(union sigval value)
{
    CHECK(value.sival_int == 9);
    sem_post(&called);
}

int main(void)
{
    struct sigaction action = {.sa_handler = on_alarm};
    struct timespec begin, end;
    sigset_t set, before;
    sigemptyset(&set);
    sigaddset(&set, SIGALRM);
    sigaddset(&set, SIGRTMIN + 1);
    pthread_sigmask(SIG_BLOCK, &set, &before);
    clock_gettime(CLOCK_MONOTONIC, &begin);
    sigaction(SIGALRM, &action, NULL);
    action.sa_sigaction = on_timer;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGRTMIN + 1, &action, NULL);
    CHECK(alarm(1000) == 0);
    unsigned rest = alarm(2);
    CHECK(rest == 0 || rest > 990);
    CHECK(sigsuspend(&before) == -1 && errno == EINTR && alarms == 1);
    alarm(0);

    struct itimerval often = {{0, 10000}, {0, 10000}}, never = {{0, 0}, {0, 0}}, left;
    CHECK(setitimer(ITIMER_REAL, &often, NULL) == 0);
    while (alarms < 4)
        sigsuspend(&before);
    CHECK(setitimer(ITIMER_REAL, &never, &left) == 0 && left.it_interval.tv_usec == 10000);

    timer_t timer;
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN + 1, .sigev_value.sival_int = 7};
    struct itimerspec twice = {{1, 0}, {1, 0}}, once = {{0, 0}, {1, 0}}, stop = {{0, 0}, {0, 0}}, now;
    CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
    CHECK(timer_settime(timer, 0, &twice, NULL) == 0);
    while (timed < 2)
        sigsuspend(&before);
    CHECK(timer_settime(timer, 0, &stop, NULL) == 0);
    CHECK(timer_gettime(timer, &now) == 0 && now.it_value.tv_sec == 0 && now.it_value.tv_nsec == 0);
    CHECK(timer_delete(timer) == 0);

    sem_init(&called, 0, 0);
    event = (struct sigevent){.sigev_notify = SIGEV_THREAD, .sigev_notify_function = call, .sigev_value.sival_int = 9};
    CHECK(timer_create(CLOCK_REALTIME, &event, &timer) == 0);
    CHECK(timer_settime(timer, 0, &once, NULL) == 0);
    CHECK(sem_wait(&called) == 0);
    CHECK(timer_delete(timer) == 0);

    uint64_t count;
    int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
    CHECK(fd >= 0 && timerfd_settime(fd, 0, &once, NULL) == 0);
    CHECK(read(fd, &count, sizeof count) == sizeof count && count == 1);
    CHECK(timerfd_gettime(fd, &now) == 0 && now.it_value.tv_sec == 0);
    close(fd);
    clock_gettime(CLOCK_MONOTONIC, &end);
    CHECK(end.tv_sec - begin.tv_sec >= 5);
}
