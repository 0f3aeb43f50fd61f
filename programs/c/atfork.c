/* Handlers of fork that take a lock in the parent and give it back on both sides, and what both print after: the child has
 * the calling thread only, and the lock is free in it. What a child prints belongs to its own run. Expected: exit 0. */
#define _GNU_SOURCE
#include "../support.h"

#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int prepared, in_parent, in_child;

static void prepare(void)
{
    pthread_mutex_lock(&mutex);
    prepared++;
}

static void parent(void)
{
    in_parent++;
    pthread_mutex_unlock(&mutex);
}

static void child(void)
{
    in_child++;
    pthread_mutex_unlock(&mutex);
}

static void *busy(void *unused)
{
    for (int i = 0; i < 5; i++) {
        pthread_mutex_lock(&mutex);
        pthread_mutex_unlock(&mutex);
    }
    return unused;
}

static void *forks(void *unused)
{
    int status;
    pid_t process = fork();
    if (process == 0) {
        pthread_t thread;
        pthread_create(&thread, NULL, busy, NULL);
        pthread_join(thread, NULL);
        printf("child\n");
        fflush(stdout);
        _exit(in_child == 1 && in_parent == 0 ? 0 : 1);
    }
    CHECK(waitpid(process, &status, 0) == process && status == 0);
    return unused;
}

int main(void)
{
    pthread_t first, second;
    pthread_atfork(prepare, parent, child);
    pthread_create(&first, NULL, busy, NULL);
    pthread_create(&second, NULL, forks, NULL);
    pthread_join(second, NULL);
    pthread_join(first, NULL);
    CHECK(prepared == 1 && in_parent == 1 && in_child == 0);
    printf("parent\n");
}
