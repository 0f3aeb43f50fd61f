/* Written when the other thread is there already.
 * real: race x */
#include "micro.h"

int x;

static void *a(void *unused)
{
    x = 2;
    return unused;
}

int main(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, a, NULL);
    x = 1;
    pthread_join(thread, NULL);
    return 0;
}
