/* A crash handler for one time says a word and returns: the fault happens again and is deadly now. Expected:
 * SIGSEGV at the fault, after one word. */
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

static int *nowhere;

static void say(int signal)
{
    (void)signal;
    if (write(1, "handled\n", 8) != 8)
        _exit(1);
}

static void *worker(void *unused)
{
    *(volatile int *)nowhere = 1; /* FAIL */
    return unused;
}

int main(void)
{
    pthread_t thread;
    struct sigaction action = {.sa_handler = say, .sa_flags = (int)SA_RESETHAND};
    sigaction(SIGSEGV, &action, NULL);
    pthread_create(&thread, NULL, worker, NULL);
    pthread_join(thread, NULL);
}
