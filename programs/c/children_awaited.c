/* Every way to wait for a child, while another thread goes on: each child ends only when that thread has written to it, so a wait that
 * held up all threads would never end. Expected: exit 0. */
#define _GNU_SOURCE
#include "../support.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static int channel[2];
static sem_t started;

/* A child that ends with this status when there is a byte for it. */
static pid_t begin(int status)
{
    pid_t child = fork();
    char byte;
    CHECK(child >= 0);
    if (child == 0)
        _exit(read(channel[0], &byte, 1) == 1 ? status : 99);
    sem_post(&started);
    return child;
}

static void *feeder(void *count)
{
    for (long i = 0; i < (long)count; i++) {
        sem_wait(&started);
        CHECK(write(channel[1], "x", 1) == 1);
    }
    return NULL;
}

int main(void)
{
    pthread_t thread;
    pid_t child;
    int status;
    struct rusage usage;
    siginfo_t info;
    CHECK(pipe(channel) == 0);
    sem_init(&started, 0, 0);
    pthread_create(&thread, NULL, feeder, (void *)5L);

    child = begin(1);
    CHECK(wait(&status) == child && WIFEXITED(status) && WEXITSTATUS(status) == 1);
    child = begin(2);
    CHECK(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 2);
    child = begin(3);
    CHECK(wait4(child, &status, 0, &usage) == child && WEXITSTATUS(status) == 3);
    child = begin(4);
    CHECK(waitid(P_PID, child, &info, WEXITED | WNOWAIT) == 0 && info.si_pid == child && info.si_status == 4);
    CHECK(waitid(P_ALL, 0, &info, WEXITED) == 0 && info.si_pid == child && info.si_code == CLD_EXITED);
    child = begin(5);
    CHECK(waitpid(-1, NULL, 0) == child);
    CHECK(waitpid(child, &status, WNOHANG) == -1 && errno == ECHILD);
    CHECK(wait(NULL) == -1 && errno == ECHILD);
    CHECK(kill(child, 0) == -1 && errno == ESRCH);
    pthread_join(thread, NULL);
}
