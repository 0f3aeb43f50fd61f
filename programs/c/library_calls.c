/* What the C library asks the kernel for by itself, in a program whose library calls are looked at because OpenMP is there: handlers that
 * block all signals, masks, children by spawn and by the shell, pipes, files. Expected: all as it should be. */
#define _GNU_SOURCE
#include "../support.h"

#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
static atomic_int handled;

static void handle(int signal)
{
    char *text;
    CHECK(asprintf(&text, "signal %d", signal) > 0);
    free(text);
    (void)!write(STDOUT_FILENO, "", 0);
    handled++;
}

static void *work(void *unused)
{
    sigset_t all, before;
    sigfillset(&all);
    CHECK(pthread_sigmask(SIG_SETMASK, &all, &before) == 0);
    FILE *file = tmpfile();
    CHECK(file != NULL);
    CHECK(fprintf(file, "%d\n", 42) == 3);
    CHECK(fclose(file) == 0);
    CHECK(pthread_sigmask(SIG_SETMASK, &before, NULL) == 0);
    CHECK(raise(SIGUSR1) == 0);
    return unused;
}

int main(void)
{
    struct sigaction action = {.sa_handler = handle};
    sigfillset(&action.sa_mask);
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
#pragma omp parallel num_threads(2)
    CHECK(raise(SIGUSR1) == 0);
    CHECK(handled == 2);

    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, work, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(handled == 3);

    CHECK(system("exit 7") == 7 << 8);
    char *arguments[] = {"sh", "-c", "exit 3", NULL};
    pid_t child;
    int status;
    CHECK(posix_spawn(&child, "/bin/sh", NULL, NULL, arguments, environ) == 0);
    CHECK(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 3);
    FILE *pipe = popen("echo hello", "r");
    char line[16];
    CHECK(pipe != NULL && fgets(line, sizeof line, pipe) && strcmp(line, "hello\n") == 0);
    CHECK(pclose(pipe) == 0);
}
