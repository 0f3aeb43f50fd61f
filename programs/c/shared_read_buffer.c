/* Two threads read different parts of a file into one buffer. Expected: the check fails if a thread finds
 * what the other one has read. */
#include "../support.h"
#include <pthread.h>
#include <unistd.h>

static FILE *file;
static char buffer[4];

static void *read_part(void *part)
{
    long nth = (long)part;
    CHECK(pread(fileno(file), buffer, sizeof buffer, nth * 4) == 4);
    CHECK(buffer[0] == 'a' + nth); /* FAIL */
    return NULL;
}

int main(void)
{
    pthread_t threads[2];
    file = tmpfile();
    fputs("aaaabbbb", file);
    fflush(file);
    for (long i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, read_part, (void *)i);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
