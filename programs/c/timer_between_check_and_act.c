/* A time limit by a timer: the handler gives the buffer back, also between the check that it is there and its use. Expected:
 * SIGSEGV if the timer fires in between. */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <sys/time.h>

static char memory[16], *volatile buffer = memory;

static void time_is_up(int signal)
{
    (void)signal;
    buffer = NULL;
}

int main(void)
{
    struct sigaction action = {.sa_handler = time_is_up};
    struct itimerval limit = {{0, 0}, {0, 100000}};
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &limit, NULL);
    for (int i = 0; i < 3; i++)
        if (buffer) {
            sched_yield();
            buffer[i] = 1; /* FAIL */
        }
}
