/* Signal handlers of several threads, on alternate stacks and not, that wait for each other: each has its
 * stack and its signal mask for itself. Expected: exit 0. */
#define _GNU_SOURCE
#include "../support.h"

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <string.h>

enum { THREADS = 3, SIZE = 64 << 10 };

static sem_t turn[THREADS];
static __thread int me;

static void hand_around(int signal)
{
    volatile char mark[1000];
    memset((char *)mark, me + signal, sizeof mark);
    for (int i = 0; i < 2; i++) {
        sem_post(&turn[(me + 1) % THREADS]);
        sem_wait(&turn[me]);
    }
    for (size_t i = 0; i < sizeof mark; i++)
        CHECK(mark[i] == me + signal);
}

static void *worker(void *number)
{
    me = (int)(long)number;
    stack_t stack = {.ss_sp = malloc(SIZE), .ss_size = SIZE};
    CHECK(sigaltstack(&stack, NULL) == 0);
    raise(SIGUSR1);
    raise(SIGUSR2);
    raise(SIGSEGV);
    return NULL;
}

int main(void)
{
    pthread_t threads[THREADS];
    struct sigaction action = {.sa_handler = hand_around};
    sigaction(SIGUSR2, &action, NULL);
    sigaction(SIGSEGV, &action, NULL);
    action.sa_flags = SA_ONSTACK;
    sigaction(SIGUSR1, &action, NULL);
    for (int i = 0; i < THREADS; i++)
        sem_init(&turn[i], 0, 0);
    for (long i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, worker, (void *)i);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}
