/* pthread_exit from a nested call runs the cleanup handlers, last pushed first, and hands its value to
 * join. Expected: handlers in the order 2, 1. */
#include "../support.h"

#include <pthread.h>

static int order[2], handlers_run;

static void note(void *number)
{
    order[handlers_run++] = *(int *)number;
}

static void leave_from_deep_inside(void)
{
    pthread_exit("left early");
}

static void *worker(void *unused)
{
    static int one = 1, two = 2;
    pthread_cleanup_push(note, &one);
    pthread_cleanup_push(note, &two);
    leave_from_deep_inside();
    pthread_cleanup_pop(0);
    pthread_cleanup_pop(0);
    return unused;
}

int main(void)
{
    pthread_t thread;
    void *result;
    CHECK(pthread_create(&thread, NULL, worker, NULL) == 0);
    CHECK(pthread_join(thread, &result) == 0);
    printf("%s: %d %d\n", (const char *)result, order[0], order[1]);
}
