/* The owner of a robust mutex ends while holding it. Expected: of the three threads that lock it afterwards,
 * exactly one gets EOWNERDEAD. It makes the mutex consistent, and the others lock it as usual. */
#include "../support.h"

#include <errno.h>
#include <pthread.h>

static pthread_mutex_t mutex;
static int owner_deaths_seen;

static void lock_and_repair(void)
{
    int error = pthread_mutex_lock(&mutex);
    if (error == EOWNERDEAD) {
        owner_deaths_seen++;
        CHECK(pthread_mutex_consistent(&mutex) == 0);
    } else {
        CHECK(error == 0);
    }
}

static void *dies_holding(void *unused)
{
    lock_and_repair();
    return unused;
}

static void *careful(void *unused)
{
    lock_and_repair();
    CHECK(pthread_mutex_unlock(&mutex) == 0);
    return unused;
}

int main(void)
{
    void *(*const bodies[])(void *) = { careful, dies_holding, careful };
    pthread_t threads[3];
    pthread_mutexattr_t attr;
    pthread_mutexattr_init(&attr);
    pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
    CHECK(pthread_mutex_init(&mutex, &attr) == 0);
    for (int i = 0; i < 3; i++)
        CHECK(pthread_create(&threads[i], NULL, bodies[i], NULL) == 0);
    for (int i = 0; i < 3; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    lock_and_repair();
    CHECK(owner_deaths_seen == 1);
    CHECK(pthread_mutex_unlock(&mutex) == 0);
    CHECK(pthread_mutex_destroy(&mutex) == 0);
}
