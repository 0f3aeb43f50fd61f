/* A signal that is pending when its disposition becomes SIG_IGN is discarded, in whichever thread it is pending. So is
   an ignored signal that was blocked, once it is unblocked. No handler that is installed afterwards sees them. */
#define _XOPEN_SOURCE 700
#include "../support.h"
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

static atomic_int handled, stop;

static void handler(int signal)
{
    (void)signal;
    atomic_fetch_add(&handled, 1);
}

static int is_pending(int signal)
{
    sigset_t pending;
    sigpending(&pending);
    return sigismember(&pending, signal);
}

static void set_action(int signal, void (*action)(int))
{
    struct sigaction new = {.sa_handler = action};
    CHECK(sigaction(signal, &new, NULL) == 0);
}

static void *blocks(void *set)
{
    pthread_sigmask(SIG_BLOCK, set, NULL);
    raise(SIGUSR1);
    CHECK(is_pending(SIGUSR1));
    atomic_store(&stop, 1);
    while (atomic_load(&stop) == 1) sched_yield();
    CHECK(!is_pending(SIGUSR1));
    pthread_sigmask(SIG_UNBLOCK, set, NULL);
    return NULL;
}

int main(void)
{
    pthread_t thread;
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    set_action(SIGUSR1, handler);
    pthread_create(&thread, NULL, blocks, &set);
    while (!atomic_load(&stop)) sched_yield();
    set_action(SIGUSR1, SIG_IGN);
    set_action(SIGUSR1, handler);
    atomic_store(&stop, 2);
    pthread_join(thread, NULL);
    CHECK(atomic_load(&handled) == 0);

    /* Blocked, it stays pending although it is ignored; unblocked, it is gone. Every instance of a real-time signal counts. */
    sigaddset(&set, SIGRTMIN);
    set_action(SIGRTMIN, SIG_IGN);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    raise(SIGRTMIN);
    CHECK(is_pending(SIGRTMIN));
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    CHECK(!is_pending(SIGRTMIN));
    set_action(SIGRTMIN, handler);
    sched_yield();
    CHECK(atomic_load(&handled) == 0);
    raise(SIGRTMIN);
    CHECK(atomic_load(&handled) == 1);
    return 0;
}
