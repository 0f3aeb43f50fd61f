/* A signal to the process is taken by one thread that does not block it; which one is open. One that all block waits until
 * somebody unblocks it, and of several of the same number one is left; those that are queued all come, with their values.
 * Expected: exit 0. */
#define _GNU_SOURCE
#include "../support.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

static volatile sig_atomic_t by_main, by_worker, plain, queued, sum;
static pthread_t main_thread;

static void on_usr1(int signal)
{
    (void)signal;
    if (pthread_equal(pthread_self(), main_thread))
        by_main++;
    else
        by_worker++;
}

static void on_usr2(int signal)
{
    (void)signal;
    plain++;
}

static void on_queued(int signal, siginfo_t *info, void *context)
{
    (void)context;
    CHECK(signal == SIGRTMIN && info->si_code == SI_QUEUE && info->si_pid == getpid());
    queued++;
    sum = sum * 10 + info->si_value.sival_int;
}

static void *worker(void *unused)
{
    sched_yield();
    kill(getpid(), SIGUSR1);
    sched_yield();
    return unused;
}

int main(void)
{
    pthread_t thread;
    sigset_t set, before, pending;
    struct sigaction action = {.sa_handler = on_usr1};
    main_thread = pthread_self();
    sigaction(SIGUSR1, &action, NULL);
    action.sa_handler = on_usr2;
    sigaction(SIGUSR2, &action, NULL);
    action.sa_sigaction = on_queued;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGRTMIN, &action, NULL);
    pthread_create(&thread, NULL, worker, NULL);
    sched_yield();
    sched_yield();
    pthread_join(thread, NULL);
    CHECK(by_main + by_worker == 1);

    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    sigaddset(&set, SIGRTMIN);
    pthread_sigmask(SIG_BLOCK, &set, &before);
    CHECK(!sigismember(&before, SIGUSR2));
    for (int i = 1; i <= 3; i++) {
        kill(getpid(), SIGUSR2);
        sigqueue(getpid(), SIGRTMIN, (union sigval){.sival_int = i});
    }
    CHECK(plain == 0 && queued == 0);
    sigpending(&pending);
    CHECK(sigismember(&pending, SIGUSR2) && sigismember(&pending, SIGRTMIN) && !sigismember(&pending, SIGUSR1));
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    CHECK(plain == 1 && queued == 3 && sum == 123);
}
