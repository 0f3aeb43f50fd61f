/* Thread-local variables and errno belong to one thread and survive switches. Expected: nobody sees
 * another's. */
#include "../support.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>

static _Thread_local int mine = 5;
static _Thread_local char buffer[100];

static void *worker(void *number)
{
    int n = *(int *)number;
    CHECK(mine == 5 && buffer[99] == 0);
    mine = n;
    buffer[99] = (char)n;
    errno = n;
    sched_yield();
    CHECK(errno == n);
    CHECK(mine == n && buffer[99] == n);
    return &mine;
}

int main(void)
{
    pthread_t threads[3];
    int numbers[3] = { 10, 20, 30 };
    errno = 40;
    for (int i = 0; i < 3; i++) {
        CHECK(pthread_create(&threads[i], NULL, worker, &numbers[i]) == 0);
        CHECK(errno == 40);
    }
    for (int i = 0; i < 3; i++) {
        void *theirs;
        CHECK(pthread_join(threads[i], &theirs) == 0);
        CHECK(theirs != &mine && errno == 40);
    }
    CHECK(mine == 5 && buffer[99] == 0);
}
