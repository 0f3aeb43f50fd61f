/* A recursive mutex is free for others only after as many unlocks as locks. Expected: a nested update is
 * never seen half done. */
#include "../support.h"

#include <pthread.h>

static pthread_mutex_t mutex;
static int debit, credit;

static void transfer(int depth)
{
    CHECK(pthread_mutex_lock(&mutex) == 0);
    CHECK(debit == credit || depth > 0);
    debit++;
    if (depth < 2)
        transfer(depth + 1);
    credit++;
    CHECK(pthread_mutex_unlock(&mutex) == 0);
}

static void *worker(void *unused)
{
    transfer(0);
    return unused;
}

int main(void)
{
    pthread_t threads[2];
    pthread_mutexattr_t attr;
    pthread_mutexattr_init(&attr);
    pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
    CHECK(pthread_mutex_init(&mutex, &attr) == 0);
    pthread_mutexattr_destroy(&attr);
    for (int i = 0; i < 2; i++)
        CHECK(pthread_create(&threads[i], NULL, worker, NULL) == 0);
    transfer(0);
    for (int i = 0; i < 2; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(debit == 9 && credit == 9);
    CHECK(pthread_mutex_destroy(&mutex) == 0);
}
