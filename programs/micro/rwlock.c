/* Read for reading, written for writing.
 * real: none */
#include "micro.h"

int x, y, z;
pthread_rwlock_t l = PTHREAD_RWLOCK_INITIALIZER;

static void *a(void *unused)
{
    pthread_rwlock_wrlock(&l);
    x = 1;
    pthread_rwlock_unlock(&l);
    return unused;
}

static void *b(void *unused)
{
    pthread_rwlock_rdlock(&l);
    y = x;
    pthread_rwlock_unlock(&l);
    return unused;
}

static void *c(void *unused)
{
    pthread_rwlock_rdlock(&l);
    z = x;
    pthread_rwlock_unlock(&l);
    return unused;
}

int main(void)
{
    SIDE_BY_SIDE(a, b, c);
    return 0;
}
