/* A thread locks standard output over several calls and yields in between, while two others print and do the same.
 * Expected: the others wait inside the C library, lines are not mixed, and all three threads end. */
#include "../support.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

static char text[256];
static FILE *out;

static void *speak(void *name)
{
    flockfile(out);
    fprintf(out, "<%s", (const char *)name);
    sched_yield();
    fprintf(out, "%s", (const char *)name);
    sched_yield();
    fprintf(out, "%s>", (const char *)name);
    funlockfile(out);
    return NULL;
}

static void *shout(void *name)
{
    for (int i = 0; i < 2; i++) {
        fprintf(out, "<%s>", (const char *)name);
        sched_yield();
    }
    return NULL;
}

int main(void)
{
    out = fmemopen(text, sizeof text, "w");
    CHECK(out != NULL);
    CHECK(ftrylockfile(out) == 0);
    pthread_t threads[3];
    CHECK(pthread_create(&threads[0], NULL, speak, "a") == 0);
    CHECK(pthread_create(&threads[1], NULL, speak, "b") == 0);
    CHECK(pthread_create(&threads[2], NULL, shout, "c") == 0);
    fprintf(out, "begin");
    funlockfile(out);
    for (int i = 0; i < 3; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    fclose(out);
    CHECK(strncmp(text, "begin", 5) == 0);
    CHECK(strstr(text, "<aaa>") && strstr(text, "<bbb>") && strstr(text, "<c>"));
    CHECK(strlen(text) == 5 + 5 + 5 + 3 + 3);
}
