/* A worker halves a number until it is 1. If main has not set it yet, it is 0, and the loop never ends and has no
 * schedule point. Expected: time-out in that schedule. */
#include <pthread.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static unsigned number;

static void *count_halvings(void *result)
{
    pthread_mutex_lock(&mutex);
    unsigned n = number;
    pthread_mutex_unlock(&mutex);
    unsigned halvings = 0;
    while (n != 1) {
        n /= 2;
        halvings++;
    }
    *(unsigned *)result = halvings;
    return NULL;
}

int main(void)
{
    pthread_t thread;
    unsigned halvings = 0;
    pthread_create(&thread, NULL, count_halvings, &halvings);
    pthread_mutex_lock(&mutex);
    number = 64;
    pthread_mutex_unlock(&mutex);
    pthread_join(thread, NULL);
    return halvings != 6;
}
