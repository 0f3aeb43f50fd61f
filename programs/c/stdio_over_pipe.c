/* A FILE over a pipe between threads: one waits inside of fgets, fread and getline while the other prints into the pipe, and a
 * third one counts. Expected: exit 0. */
#define _GNU_SOURCE
#include "../support.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static FILE *from, *to;
static sem_t asked;
static int counted;

static void *printer(void *unused)
{
    sem_wait(&asked);
    fprintf(to, "%s %d\n", "line", 1);
    fflush(to);
    sem_wait(&asked);
    fputs("line 2\n", to);
    fflush(to);
    sem_wait(&asked);
    fwrite("12345", 1, 5, to);
    fclose(to);
    return unused;
}

static void *counter(void *unused)
{
    for (; counted < 10; counted++)
        usleep(1);
    return unused;
}

int main(void)
{
    pthread_t threads[2];
    int ends[2];
    char line[64], *more = NULL;
    size_t room = 0;
    CHECK(pipe(ends) == 0);
    from = fdopen(ends[0], "r");
    to = fdopen(ends[1], "w");
    sem_init(&asked, 0, 0);
    pthread_create(&threads[0], NULL, printer, NULL);
    pthread_create(&threads[1], NULL, counter, NULL);
    sem_post(&asked);
    CHECK(fgets(line, sizeof line, from) && strcmp(line, "line 1\n") == 0);
    sem_post(&asked);
    CHECK(getline(&more, &room, from) == 7 && strcmp(more, "line 2\n") == 0);
    sem_post(&asked);
    CHECK(fread(line, 1, sizeof line, from) == 5 && memcmp(line, "12345", 5) == 0 && feof(from));
    fclose(from);
    free(more);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    CHECK(counted == 10);
}
