/* A signal that a thread raises for itself is handled at once, on that thread's own alternate stack.
 * Expected: the handler ran once per thread, each time on the right stack. */
#define _GNU_SOURCE
#include "../support.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>

enum { STACK_SIZE = 64 * 1024 };

static char stacks[2][STACK_SIZE];
static _Thread_local volatile uintptr_t handled_at;

static void handler(int signal)
{
    char local;
    (void)signal;
    handled_at = (uintptr_t)&local;
}

static void *worker(void *stack)
{
    stack_t mine = { .ss_sp = stack, .ss_size = STACK_SIZE };
    CHECK(sigaltstack(&mine, NULL) == 0);
    sched_yield();
    CHECK(raise(SIGUSR1) == 0);
    CHECK(handled_at >= (uintptr_t)stack && handled_at < (uintptr_t)stack + STACK_SIZE);
    mine.ss_flags = SS_DISABLE;
    CHECK(sigaltstack(&mine, NULL) == 0);
    return NULL;
}

int main(void)
{
    pthread_t threads[2];
    struct sigaction action = { .sa_handler = handler, .sa_flags = SA_ONSTACK };
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    for (int i = 0; i < 2; i++)
        CHECK(pthread_create(&threads[i], NULL, worker, stacks[i]) == 0);
    for (int i = 0; i < 2; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
}
