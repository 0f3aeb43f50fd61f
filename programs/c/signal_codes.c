/* What a program learns about its signals: how each was sent, actions after use, masks and pending signals. Expected:
   exit 0. */
#define _GNU_SOURCE
#include "../support.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t code, value, is_own;

static void note(int signal, siginfo_t *info, void *context)
{
    (void)signal;
    (void)context;
    code = info->si_code;
    value = info->si_value.sival_int;
    is_own = info->si_pid == getpid() && info->si_uid == getuid();
}

static void check_handlers(void)
{
    union sigval seven = {.sival_int = 7};
    raise(SIGUSR1);
    CHECK(code == SI_TKILL && is_own);
    kill(getpid(), SIGUSR1);
    CHECK(code == SI_USER && is_own);
    pthread_kill(pthread_self(), SIGUSR1);
    CHECK(code == SI_TKILL && is_own);
    sigqueue(getpid(), SIGUSR1, seven);
    CHECK(code == SI_QUEUE && is_own && value == 7);
    pthread_sigqueue(pthread_self(), SIGUSR1, seven);
    CHECK(code == SI_QUEUE && is_own && value == 7);
}

static void check_actions(void)
{
    enum { RESTORER = 0x04000000 };
    struct sigaction action = {.sa_sigaction = note}, old;
    action.sa_flags = SA_SIGINFO | SA_RESETHAND | SA_RESTART;
    sigfillset(&action.sa_mask);
    CHECK(sigaction(SIGUSR2, &action, NULL) == 0);
    for (int round = 0; round < 2; round++) {
        CHECK(sigaction(SIGUSR2, NULL, &old) == 0);
        CHECK(old.sa_flags == (int)(action.sa_flags | RESTORER));
        CHECK(sigismember(&old.sa_mask, SIGHUP) && !sigismember(&old.sa_mask, SIGKILL));
        CHECK(round == 0 ? old.sa_sigaction == note : old.sa_handler == SIG_DFL);
        if (round == 0)
            raise(SIGUSR2);
    }
}

static void *check_inherited(void *unused)
{
    sigset_t set;
    pthread_sigmask(SIG_SETMASK, NULL, &set);
    CHECK(sigismember(&set, SIGUSR1) && sigismember(&set, SIGTERM) && !sigismember(&set, SIGHUP));
    sigpending(&set);
    CHECK(!sigismember(&set, SIGUSR1) && sigismember(&set, SIGTERM));
    return unused;
}

static int code_from(int fd)
{
    struct signalfd_siginfo info;
    CHECK(read(fd, &info, sizeof info) == sizeof info);
    return info.ssi_code;
}

int main(void)
{
    pthread_t thread;
    sigset_t set, old;
    siginfo_t info;
    union sigval seven = {.sival_int = 7};
    struct sigaction action = {.sa_sigaction = note, .sa_flags = SA_SIGINFO};
    struct itimerval soon = {{0, 0}, {0, 1000}};

    sigaction(SIGUSR1, &action, NULL);
    check_handlers();
    check_actions();

    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGALRM);
    sigprocmask(SIG_BLOCK, &set, &old);
    CHECK(!sigismember(&old, SIGUSR1));
    raise(SIGUSR1);
    kill(getpid(), SIGTERM);
    sigpending(&old);
    CHECK(sigismember(&old, SIGUSR1) && sigismember(&old, SIGTERM) && !sigismember(&old, SIGALRM));
    pthread_create(&thread, NULL, check_inherited, NULL);
    pthread_join(thread, NULL);
    /* The C library reports raise as kill here. */
    CHECK(sigwaitinfo(&set, &info) == SIGUSR1 && info.si_code == SI_USER);
    CHECK(sigwaitinfo(&set, &info) == SIGTERM && info.si_code == SI_USER);

    int fd = signalfd(-1, &set, 0);
    raise(SIGUSR1);
    CHECK(code_from(fd) == SI_TKILL);
    kill(getpid(), SIGUSR1);
    CHECK(code_from(fd) == SI_USER);
    sigqueue(getpid(), SIGTERM, seven);
    CHECK(code_from(fd) == SI_QUEUE);
    setitimer(ITIMER_REAL, &soon, NULL);
    CHECK(sigwaitinfo(&set, &info) == SIGALRM && info.si_code == SI_KERNEL);
    return 0;
}
