/* Every thread starts without an alternate signal stack, sets its own, and still has it after switches to
 * others. Expected: exit 0. */
#define _GNU_SOURCE
#include "../support.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>

enum { STACK_SIZE = 64 * 1024 };

static char stacks[3][STACK_SIZE];

static void *worker(void *stack)
{
    stack_t found, mine = { .ss_sp = stack, .ss_size = STACK_SIZE };
    CHECK(sigaltstack(NULL, &found) == 0 && found.ss_flags == SS_DISABLE);
    CHECK(sigaltstack(&mine, NULL) == 0);
    for (int i = 0; i < 2; i++) {
        sched_yield();
        CHECK(sigaltstack(NULL, &found) == 0);
        CHECK(found.ss_sp == stack && found.ss_size == STACK_SIZE && found.ss_flags == 0);
    }
    mine.ss_flags = SS_DISABLE;
    CHECK(sigaltstack(&mine, &found) == 0 && found.ss_sp == stack);
    CHECK(sigaltstack(NULL, &found) == 0 && found.ss_flags == SS_DISABLE);
    return NULL;
}

int main(void)
{
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        CHECK(pthread_create(&threads[i], NULL, worker, stacks[i]) == 0);
    worker(stacks[2]);
    for (int i = 0; i < 2; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
}
