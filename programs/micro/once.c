/* Made once, read by all.
 * real: none */
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
    y = x;
    return unused;
}

static void *b(void *unused)
{
    pthread_once(&once, init);
    if (x != 1)
        y = 0;
    return unused;
}

int main(void)
{
    SIDE_BY_SIDE(a, b);
    return 0;
}
