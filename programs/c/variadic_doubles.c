/* Floating-point arguments of functions with any number of them, in the very first call of each: they travel in registers of their own.
 * Expected: what is printed is what was passed. */
#include "../support.h"

#include <pthread.h>

static void *say(void *unused)
{
    fprintf(stdout, "%.1f %d %.1f %.1f %.1f\n", 0.5, 1, 2.5, 3.5, 4.5);
    return unused;
}

int main(void)
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, say, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    return 0;
}
