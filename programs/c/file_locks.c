/* Locks on a file keep two threads apart, each with a descriptor of its own; a third uses record locks. Expected: exit 0. */
#define _GNU_SOURCE
#include "../support.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

static char path[32];
static int inside, count;

static void *enter(void *unused)
{
    int fd = open(path, O_RDWR);
    CHECK(fd >= 0);
    for (int i = 0; i < 2; i++) {
        CHECK(flock(fd, LOCK_EX) == 0);
        CHECK(inside++ == 0);
        sched_yield();
        count++;
        inside--;
        CHECK(flock(fd, LOCK_UN) == 0);
    }
    close(fd);
    return unused;
}

static void *records(void *unused)
{
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    int fd = open(path, O_RDWR);
    CHECK(fcntl(fd, F_SETLKW, &whole) == 0);
    CHECK(lockf(fd, F_TEST, 1) == 0);
    close(fd);
    return unused;
}

int main(void)
{
    pthread_t threads[3];
    int fd = memfd_create("locks", 0);
    CHECK(fd >= 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd); /* opened again by each */
    pthread_create(&threads[0], NULL, enter, NULL);
    pthread_create(&threads[1], NULL, enter, NULL);
    pthread_create(&threads[2], NULL, records, NULL);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    CHECK(count == 4);
}
