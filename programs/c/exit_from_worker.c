/* A worker calls exit(7) while main waits in pthread_join: the exit handler runs, the process ends with 7.
 * Expected: exit 7 in every schedule. */
#include "../support.h"

#include <pthread.h>

static void say_goodbye(void)
{
    puts("goodbye");
}

static void *worker(void *unused)
{
    (void)unused;
    exit(7);
}

int main(void)
{
    pthread_t thread;
    atexit(say_goodbye);
    CHECK(pthread_create(&thread, NULL, worker, NULL) == 0);
    pthread_join(thread, NULL);
    CHECK(!"join returned");
}
