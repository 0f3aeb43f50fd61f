/* A thread blocks in read on a pipe that another thread writes to later. Expected: the read must not stall
 * the writer; the whole message arrives. */
#include "../support.h"

#include <pthread.h>
#include <unistd.h>

static int ends[2];

static void *writer(void *message)
{
    for (const char *c = message; *c; c++)
        CHECK(write(ends[1], c, 1) == 1);
    close(ends[1]);
    return NULL;
}

int main(void)
{
    pthread_t thread;
    char c;
    CHECK(pipe(ends) == 0);
    CHECK(pthread_create(&thread, NULL, writer, "hello\n") == 0);
    while (read(ends[0], &c, 1) == 1)
        putchar(c);
    CHECK(pthread_join(thread, NULL) == 0);
    close(ends[0]);
}
