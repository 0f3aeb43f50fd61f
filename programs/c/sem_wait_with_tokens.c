/* `sem_wait` does not wait if there are tokens, so a signal that arrives then does not make it fail: the handler runs,
   and the token is taken. The handler was installed without SA_RESTART. */
#include "../support.h"
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <string.h>

static sem_t tokens;
static volatile sig_atomic_t handled;

static void handler(int signal)
{
    handled = signal;
}

static void *waits(void *unused)
{
    for (int i = 0; i < 3; i++) CHECK(sem_wait(&tokens) == 0);
    return unused;
}

int main(void)
{
    pthread_t thread;
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = handler;
    sigaction(SIGUSR1, &action, NULL);
    sem_init(&tokens, 0, 3);
    pthread_create(&thread, NULL, waits, NULL);
    CHECK(pthread_kill(thread, SIGUSR1) == 0);
    pthread_join(thread, NULL);
    return 0;
}
