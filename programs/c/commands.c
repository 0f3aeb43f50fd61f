/* Commands by `system`, `popen` and `posix_spawn`, while another thread does the same. Expected: exit 0. */
#define _GNU_SOURCE
#include "../support.h"

#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static void *commands(void *unused)
{
    char line[64];
    CHECK(system(NULL) != 0);
    CHECK(WEXITSTATUS(system("exit 3")) == 3);

    FILE *words = popen("printf 'one\\ntwo\\n'; exit 4", "r");
    CHECK(words && fgets(line, sizeof line, words) && strcmp(line, "one\n") == 0);
    CHECK(fgets(line, sizeof line, words) && strcmp(line, "two\n") == 0);
    CHECK(fgets(line, sizeof line, words) == NULL);
    CHECK(WEXITSTATUS(pclose(words)) == 4);

    FILE *sink = popen("test \"$(cat)\" = hello", "w");
    CHECK(sink && fputs("hello\n", sink) >= 0);
    CHECK(pclose(sink) == 0);
    CHECK(popen("true", "x") == NULL);
    return unused;
}

int main(void)
{
    pthread_t thread;
    pid_t first, second;
    int status;
    char *exits[] = {"sh", "-c", "exit 5", NULL}, *sleeps[] = {"sh", "-c", "sleep 1000", NULL};
    CHECK(posix_spawn(&first, "/bin/sh", NULL, NULL, exits, environ) == 0);
    CHECK(posix_spawnp(&second, "sh", NULL, NULL, sleeps, environ) == 0);
    CHECK(first != second && first != getpid());
    CHECK(posix_spawn(&first, "/no/such/program", NULL, NULL, exits, environ) != 0);
    pthread_create(&thread, NULL, commands, NULL);
    CHECK(kill(second, SIGTERM) == 0);
    CHECK(waitpid(second, &status, 0) == second && WTERMSIG(status) == SIGTERM);
    CHECK(waitpid(first, &status, 0) == first && WEXITSTATUS(status) == 5);
    CHECK(WEXITSTATUS(system("exit 6")) == 6);
    pthread_join(thread, NULL);
}
