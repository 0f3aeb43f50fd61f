/* A handler ends the thread that it interrupts, or jumps out, in the middle of a wait. Expected: exit 0. */
#define _GNU_SOURCE
#include "../support.h"

#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>

static sem_t never, begun;
static sigjmp_buf place;
static int cleaned;

static void leave(int signal)
{
    (void)signal;
    pthread_exit((void *)7);
}

static void jump(int signal)
{
    (void)signal;
    siglongjmp(place, 1);
}

static void clean(void *unused)
{
    (void)unused;
    cleaned++;
}

static void *waits(void *unused)
{
    pthread_cleanup_push(clean, NULL);
    sem_post(&begun);
    for (;;)
        sem_wait(&never);
    pthread_cleanup_pop(1);
    return unused;
}

static void *jumps(void *unused)
{
    if (sigsetjmp(place, 1) == 0) {
        sem_post(&begun);
        for (;;)
            sem_wait(&never);
    }
    sigset_t mask;
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    CHECK(!sigismember(&mask, SIGUSR2));
    return unused;
}

int main(void)
{
    pthread_t thread;
    void *result;
    struct sigaction action = {.sa_handler = leave};
    sigaction(SIGUSR1, &action, NULL);
    action.sa_handler = jump;
    sigaction(SIGUSR2, &action, NULL);
    sem_init(&never, 0, 0);
    sem_init(&begun, 0, 0);
    pthread_create(&thread, NULL, waits, NULL);
    sem_wait(&begun);
    pthread_kill(thread, SIGUSR1);
    pthread_join(thread, &result);
    CHECK(result == (void *)7 && cleaned == 1);
    pthread_create(&thread, NULL, jumps, NULL);
    sem_wait(&begun);
    pthread_kill(thread, SIGUSR2);
    pthread_join(thread, NULL);
}
