/* Two threads run on stacks the program itself supplies by pthread_attr_setstack; a stack is overwritten
 * and used again after the join. Expected: every local variable lies inside the supplied stack. */
#include "../support.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>

enum { STACK_SIZE = 256 * 1024 };

static _Alignas(4096) char stacks[2][STACK_SIZE];

static void *worker(void *stack)
{
    char *lowest = stack;
    char local;
    sched_yield();
    CHECK(&local >= lowest && &local < lowest + STACK_SIZE);
    return NULL;
}

int main(void)
{
    for (int round = 0; round < 2; round++) {
        pthread_t threads[2];
        for (int i = 0; i < 2; i++) {
            pthread_attr_t attr;
            pthread_attr_init(&attr);
            CHECK(pthread_attr_setstack(&attr, stacks[i], STACK_SIZE) == 0);
            CHECK(pthread_create(&threads[i], &attr, worker, stacks[i]) == 0);
            pthread_attr_destroy(&attr);
        }
        for (int i = 0; i < 2; i++) {
            CHECK(pthread_join(threads[i], NULL) == 0);
            memset(stacks[i], 0xff, STACK_SIZE);
        }
    }
}
