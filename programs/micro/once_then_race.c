/* Made once, and then written by all.
 * real: race y */
#include "micro.h"

int x, y;
pthread_once_t once = PTHREAD_ONCE_INIT;

static void init(void)
{
    x = 1;
}

static void *a(void *unused)
{
    pthread_once(&once, init);
    y = 1;
    return unused;
}

static void *b(void *unused)
{
    pthread_once(&once, init);
    y = 2;
    return unused;
}

int main(void)
{
    SIDE_BY_SIDE(a, b);
    return 0;
}
