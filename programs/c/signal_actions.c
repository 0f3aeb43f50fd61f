/* sigaction returns the previous action, SA_RESETHAND applies once, handlers leave faults by siglongjmp in every
 * thread, and a signal mask belongs to one thread. Expected: exit 0. */
#define _GNU_SOURCE
#include "../support.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <unistd.h>

static volatile sig_atomic_t calls;
static __thread sigjmp_buf before_fault;
static pthread_barrier_t blocked;

static void count(int signal)
{
    (void)signal;
    calls++;
}

static void jump_out(int signal)
{
    siglongjmp(before_fault, signal);
}

static void fault(void)
{
    if (sigsetjmp(before_fault, 1) == 0) {
        *(volatile int *)8 = 1;
        abort();
    }
}

static void *faulty(void *unused)
{
    fault();
    fault();
    return unused;
}

static void *deaf(void *unused)
{
    sigset_t usr2;
    sigemptyset(&usr2);
    sigaddset(&usr2, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &usr2, NULL);
    pthread_barrier_wait(&blocked);
    pthread_barrier_wait(&blocked);
    return unused;
}

int main(void)
{
    pthread_t threads[3];
    struct sigaction action = {.sa_handler = count, .sa_flags = SA_ONSTACK}, old;
    CHECK(sigaction(SIGUSR1, &action, &old) == 0 && old.sa_handler == SIG_DFL);
    CHECK(signal(SIGUSR1, count) == count);
    CHECK(sigaction(SIGUSR1, NULL, &old) == 0 && old.sa_handler == count && !(old.sa_flags & SA_ONSTACK));
    raise(SIGUSR1);
    kill(getpid(), SIGUSR1);
    CHECK(calls == 2);

    action = (struct sigaction){.sa_handler = count, .sa_flags = SA_RESETHAND};
    sigaction(SIGABRT, &action, NULL);
    raise(SIGABRT);
    CHECK(calls == 3 && sigaction(SIGABRT, NULL, &old) == 0 && old.sa_handler == SIG_DFL);
    CHECK(signal(SIGABRT, SIG_IGN) == SIG_DFL);
    raise(SIGABRT);

    CHECK(signal(SIGSEGV, jump_out) == SIG_DFL);
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, faulty, NULL);
    fault();

    signal(SIGUSR2, count);
    pthread_barrier_init(&blocked, NULL, 2);
    pthread_create(&threads[2], NULL, deaf, NULL);
    pthread_barrier_wait(&blocked);
    raise(SIGUSR2);
    CHECK(calls == 4);
    pthread_barrier_wait(&blocked);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
}
