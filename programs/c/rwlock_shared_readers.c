/* Two readers meet at a barrier while both hold the read lock; meanwhile no writer gets in. A writer shuts
 * out readers and writers. Expected: no deadlock, exit 0. */
#include "../support.h"

#include <errno.h>
#include <pthread.h>

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_barrier_t both_inside;

static void *reader(void *unused)
{
    CHECK(pthread_rwlock_rdlock(&lock) == 0);
    pthread_barrier_wait(&both_inside);
    CHECK(pthread_rwlock_trywrlock(&lock) == EBUSY);
    CHECK(pthread_rwlock_tryrdlock(&lock) == 0);
    CHECK(pthread_rwlock_unlock(&lock) == 0);
    CHECK(pthread_rwlock_unlock(&lock) == 0);
    return unused;
}

static void *shut_out(void *unused)
{
    CHECK(pthread_rwlock_tryrdlock(&lock) == EBUSY);
    CHECK(pthread_rwlock_trywrlock(&lock) == EBUSY);
    return unused;
}

int main(void)
{
    pthread_t threads[2];
    pthread_barrier_init(&both_inside, NULL, 2);
    for (int i = 0; i < 2; i++)
        CHECK(pthread_create(&threads[i], NULL, reader, NULL) == 0);
    for (int i = 0; i < 2; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);

    CHECK(pthread_rwlock_wrlock(&lock) == 0);
    CHECK(pthread_create(&threads[0], NULL, shut_out, NULL) == 0);
    CHECK(pthread_join(threads[0], NULL) == 0);
    CHECK(pthread_rwlock_unlock(&lock) == 0);
    CHECK(pthread_rwlock_destroy(&lock) == 0);
    CHECK(pthread_barrier_destroy(&both_inside) == 0);
}
