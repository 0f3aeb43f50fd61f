/* A producer and a consumer joined by a pipe that is smaller than what goes through it, and a pipe back. Expected: exit 0. */
#define _GNU_SOURCE
#include "../support.h"

#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

enum { BLOCKS = 5, SIZE = 4000 };

static int goods[2], thanks[2];

static void *producer(void *unused)
{
    char block[SIZE];
    for (int i = 0; i < BLOCKS; i++) {
        memset(block, 'a' + i, SIZE);
        CHECK(write(goods[1], block, SIZE) == SIZE);
    }
    CHECK(close(goods[1]) == 0);
    int count;
    CHECK(read(thanks[0], &count, sizeof count) == sizeof count && count == BLOCKS * SIZE);
    return unused;
}

int main(void)
{
    char block[1000];
    int count = 0;
    ssize_t got;
    pthread_t thread;
    CHECK(pipe(goods) == 0 && pipe2(thanks, O_CLOEXEC) == 0);
    CHECK(fcntl(goods[1], F_SETPIPE_SZ, 4096) >= 4096);
    pthread_create(&thread, NULL, producer, NULL);
    while ((got = read(goods[0], block, sizeof block)) > 0)
        for (ssize_t i = 0; i < got; i++)
            CHECK(block[i] == 'a' + count++ / SIZE);
    CHECK(got == 0);
    CHECK(write(thanks[1], &count, sizeof count) == sizeof count);
    pthread_join(thread, NULL);
}
