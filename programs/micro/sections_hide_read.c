/* The same with a read, and with nothing in the sections.
 * real: race y */
#include "micro.h"

int y, z;
pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;

static void *a(void *unused)
{
    y = 1;
    pthread_mutex_lock(&m);
    pthread_mutex_unlock(&m);
    return unused;
}

static void *b(void *unused)
{
    pthread_mutex_lock(&m);
    pthread_mutex_unlock(&m);
    z = y;
    return unused;
}

int main(void)
{
    SIDE_BY_SIDE(a, b);
    return 0;
}
