/* A thread locks a mutex, unmaps its memory and ends. Expected: a remark, and no crash. */
#define _GNU_SOURCE
#include "../support.h"

#include <pthread.h>
#include <sys/mman.h>

static void *worker(void *unused)
{
    pthread_mutex_t *mutex = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pthread_mutex_init(mutex, NULL);
    pthread_mutex_lock(mutex);
    CHECK(munmap(mutex, 4096) == 0);
    return unused;
}

int main(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, worker, NULL);
    pthread_join(thread, NULL);
}
