/* Written by two who hold the lock for reading.
 * real: race x */
#include "micro.h"

int x, y, z;
pthread_rwlock_t l = PTHREAD_RWLOCK_INITIALIZER;

static void *a(void *unused)
{
    pthread_rwlock_rdlock(&l);
    x = 1;
    pthread_rwlock_unlock(&l);
    return unused;
}

static void *b(void *unused)
{
    pthread_rwlock_rdlock(&l);
    x = 2;
    pthread_rwlock_unlock(&l);
    return unused;
}

int main(void)
{
    SIDE_BY_SIDE(a, b);
    return 0;
}
