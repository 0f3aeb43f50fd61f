/* A timer fires every millisecond while two threads work. Expected: exit 0; the work is done, however often the handler
 * has run. */
#include "../support.h"

#include <pthread.h>
#include <signal.h>
#include <sys/time.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static volatile sig_atomic_t ticks;
static int done;

static void tick(int signal)
{
    (void)signal;
    ticks++;
}

static void *work(void *unused)
{
    for (int i = 0; i < 25; i++) {
        pthread_mutex_lock(&mutex);
        done++;
        pthread_mutex_unlock(&mutex);
    }
    return unused;
}

int main(void)
{
    struct sigaction action = {.sa_handler = tick, .sa_flags = SA_RESTART};
    struct itimerval often = {{0, 1000}, {0, 1000}}, never = {{0, 0}, {0, 0}};
    pthread_t threads[2];
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    CHECK(setitimer(ITIMER_REAL, &often, NULL) == 0);
    for (int i = 0; i < 2; i++)
        CHECK(pthread_create(&threads[i], NULL, work, NULL) == 0);
    for (int i = 0; i < 2; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
    CHECK(done == 50);
}
