/* Two writers change both halves of a pair, two readers look at them, one taking the read lock twice,
 * which glibc's default kind (readers first) allows even while a writer waits. Expected: the halves always
 * agree. */
#include "../support.h"

#include <pthread.h>

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static int left, right;

static void *writer(void *unused)
{
    pthread_rwlock_wrlock(&lock);
    left++;
    right++;
    pthread_rwlock_unlock(&lock);
    return unused;
}

static void *reader(void *unused)
{
    pthread_rwlock_rdlock(&lock);
    CHECK(left == right);
    pthread_rwlock_unlock(&lock);
    return unused;
}

static void *nested_reader(void *unused)
{
    pthread_rwlock_rdlock(&lock);
    int seen = left;
    reader(NULL);
    CHECK(seen == right);
    pthread_rwlock_unlock(&lock);
    return unused;
}

int main(void)
{
    void *(*const bodies[])(void *) = { writer, reader, nested_reader, writer };
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        CHECK(pthread_create(&threads[i], NULL, bodies[i], NULL) == 0);
    for (int i = 0; i < 4; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    printf("%d %d\n", left, right);
}
