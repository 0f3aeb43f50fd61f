/* A thread keeps a stream locked by flockfile across schedule points; whoever writes to the stream
 * meanwhile waits inside the C library. Expected: each thread's two words stay together, and nobody hangs. */
#include "../support.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>

static FILE *stream;

static void *write_pair(void *word)
{
    flockfile(stream);
    fprintf(stream, "%s ", (char *)word);
    sched_yield();
    fprintf(stream, "%s\n", (char *)word);
    funlockfile(stream);
    return NULL;
}

int main(void)
{
    pthread_t threads[2];
    char *text;
    size_t size;
    stream = open_memstream(&text, &size);
    CHECK(pthread_create(&threads[0], NULL, write_pair, "left") == 0);
    CHECK(pthread_create(&threads[1], NULL, write_pair, "right") == 0);
    fputs("main\n", stream);
    for (int i = 0; i < 2; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    fclose(stream);
    CHECK(strstr(text, "left left\n") && strstr(text, "right right\n") && strstr(text, "main\n"));
    free(text);
}
