/* Two threads release the same buffer, each after seeing that it is still there. Expected: the C library
 * aborts on the second free. */
#include <pthread.h>
#include <stdlib.h>

static char *buffer;

static void *release(void *unused)
{
    if (buffer != NULL) {
        free(buffer); /* FAIL */
        buffer = NULL;
    }
    return unused;
}

int main(void)
{
    pthread_t threads[2];
    /* Too large for the per-thread caches of malloc, where a second free by another thread goes unnoticed. */
    buffer = malloc(4096);
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, release, NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
