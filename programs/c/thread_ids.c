/* Kernel thread ids: main's is the process id, those of threads alive together differ, and a thread keeps
 * its own across switches. Expected: exit 0. */
#define _GNU_SOURCE
#include "../support.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { THREADS = 3 };

static pthread_barrier_t all_alive;
static pid_t ids[THREADS];

static void *worker(void *slot)
{
    pid_t *mine = slot;
    *mine = gettid();
    pthread_barrier_wait(&all_alive);
    CHECK(*mine == gettid() && *mine == (pid_t)syscall(SYS_gettid));
    return NULL;
}

int main(void)
{
    pthread_t threads[THREADS];
    CHECK(gettid() == getpid());
    pthread_barrier_init(&all_alive, NULL, THREADS + 1);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, worker, &ids[i]) == 0);
    pthread_barrier_wait(&all_alive);
    for (int i = 0; i < THREADS; i++) {
        CHECK(ids[i] != getpid());
        for (int j = 0; j < i; j++)
            CHECK(ids[i] != ids[j]);
    }
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(gettid() == getpid());
}
