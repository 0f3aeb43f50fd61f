/* Held for reading, wanted for writing.
 * real: deadlock 2 */
#include "micro.h"

pthread_rwlock_t k = PTHREAD_RWLOCK_INITIALIZER, l = PTHREAD_RWLOCK_INITIALIZER;

static void *t(void *unused)
{
    pthread_rwlock_rdlock(&k);
    pthread_rwlock_wrlock(&l);
    pthread_rwlock_unlock(&l);
    pthread_rwlock_unlock(&k);
    return unused;
}

static void *u(void *unused)
{
    pthread_rwlock_rdlock(&l);
    pthread_rwlock_wrlock(&k);
    pthread_rwlock_unlock(&k);
    pthread_rwlock_unlock(&l);
    return unused;
}

int main(void)
{
    SIDE_BY_SIDE(t, u);
    return 0;
}
