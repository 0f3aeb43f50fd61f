/* main takes the last item away between a worker's check and its division. Expected: SIGFPE. */
#include <pthread.h>
#include <stdatomic.h>

static atomic_int items = 2;
static int total = 10;

static void *average(void *result)
{
    if (atomic_load(&items) != 0)
        *(int *)result = total / atomic_load(&items); /* FAIL */
    return NULL;
}

int main(void)
{
    pthread_t thread;
    int result = 0;
    pthread_create(&thread, NULL, average, &result);
    atomic_store(&items, 0);
    pthread_join(thread, NULL);
    return result != 0 && result != 5;
}
