/* Children read the processor's time-stamp counter, after fork, posix_spawn and exec, and so does the thread that
 * started them. Expected: exit 0. */
#define _GNU_SOURCE
#include "../support.h"

#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>
#include <x86intrin.h>

enum { WELL = 7 };

static char program[] = "/proc/self/exe", word[] = "read";
static char *const arguments[] = { program, word, NULL };

static int status_of(pid_t child)
{
    int status;
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static int reads(void)
{
    unsigned long long before = __rdtsc();
    return __rdtsc() >= before ? WELL : 1;
}

static void *worker(void *unused)
{
    char *const none[] = { NULL };
    pid_t child = fork();
    if (child == 0)
        _exit(reads());
    CHECK(status_of(child) == WELL && reads() == WELL);
    child = fork();
    if (child == 0) {
        execv(program, arguments);
        _exit(2);
    }
    CHECK(status_of(child) == WELL && reads() == WELL);
    CHECK(posix_spawn(&child, program, NULL, NULL, arguments, none) == 0);
    CHECK(status_of(child) == WELL && reads() == WELL);
    return unused;
}

int main(int count, char **words)
{
    pthread_t thread;
    if (count > 1 && words[1][0] == 'r')
        return reads();
    CHECK(pthread_create(&thread, NULL, worker, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(reads() == WELL);
}
