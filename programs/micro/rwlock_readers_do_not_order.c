/* Two readers do not order what is around them.
 * real: race y */
#include "micro.h"

int x, y, z;
pthread_rwlock_t l = PTHREAD_RWLOCK_INITIALIZER;

static void *a(void *unused)
{
    y = 1;
    pthread_rwlock_rdlock(&l);
    pthread_rwlock_unlock(&l);
    return unused;
}

static void *b(void *unused)
{
    pthread_rwlock_rdlock(&l);
    pthread_rwlock_unlock(&l);
    y = 2;
    return unused;
}

int main(void)
{
    SIDE_BY_SIDE(a, b);
    return 0;
}
