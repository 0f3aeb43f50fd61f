/* A worker counts how often a number can be halved until it is 1. If main has not set it yet, it is 0, and the loop
 * counts for ever without a schedule point. Expected: undecided in that schedule. It looks like a computation that takes
 * long, because the counter never has the same value again before it overflows. */
#include <pthread.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static unsigned long number;

static void *count_halvings(void *result)
{
    pthread_mutex_lock(&mutex);
    unsigned long n = number;
    pthread_mutex_unlock(&mutex);
    unsigned long halvings = 0;
    while (n != 1) {
        n /= 2;
        halvings++;
    }
    *(unsigned long *)result = halvings;
    return NULL;
}

int main(void)
{
    pthread_t thread;
    unsigned long halvings = 0;
    pthread_create(&thread, NULL, count_halvings, &halvings);
    pthread_mutex_lock(&mutex);
    number = 64;
    pthread_mutex_unlock(&mutex);
    pthread_join(thread, NULL);
    return halvings != 6;
}
