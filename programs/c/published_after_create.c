/* A thread uses a pointer that its creator sets only after pthread_create. Expected: SIGSEGV if the thread
 * runs first, also without instrumentation. */
#include <pthread.h>
#include <stddef.h>

static int value = 7;
static int *volatile shared;

static void *use(void *unused)
{
    *shared += 1; /* FAIL */
    return unused;
}

int main(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, use, NULL);
    shared = &value;
    pthread_join(thread, NULL);
    return value - 8;
}
