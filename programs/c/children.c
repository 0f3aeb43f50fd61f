/* Children of a threaded program: by fork, by vfork, by system, and one that crashes. They run without control
 * and leave no mark on their parent's run. Expected: exit 0. */
#define _GNU_SOURCE
#include "../support.h"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int steps;

static int status_of(pid_t child)
{
    int status;
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    return status;
}

static void *busy(void *unused)
{
    for (int i = 0; i < 10; i++) {
        pthread_mutex_lock(&mutex);
        steps++;
        pthread_mutex_unlock(&mutex);
    }
    return unused;
}

static void *worker(void *unused)
{
    pid_t parent = getpid();
    pid_t child = fork();
    if (child == 0) {
        pthread_mutex_lock(&mutex);
        pthread_mutex_unlock(&mutex);
        _exit(getpid() != parent && getppid() == parent ? 3 : 4);
    }
    CHECK(WEXITSTATUS(status_of(child)) == 3);
    return unused;
}

int main(void)
{
    pthread_t thread, other;
    pid_t child;
    pthread_create(&thread, NULL, worker, NULL);
    pthread_join(thread, NULL);

    pthread_create(&other, NULL, busy, NULL);
    child = vfork();
    if (child == 0)
        _exit(5);
    CHECK(WEXITSTATUS(status_of(child)) == 5);
    child = fork();
    if (child == 0)
        *(volatile int *)8 = 1;
    CHECK(WTERMSIG(status_of(child)) == SIGSEGV);
    CHECK(WEXITSTATUS(system("exit 6")) == 6);
    pthread_join(other, NULL);
    CHECK(steps == 10);
}
