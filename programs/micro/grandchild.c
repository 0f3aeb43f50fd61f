/* A thread's child goes on when the thread has been joined.
 * real: race x */
#include "micro.h"

int x;
pthread_t grandchild;

static void *b(void *unused)
{
    sched_yield();
    x = 2;
    return unused;
}

static void *a(void *unused)
{
    pthread_create(&grandchild, NULL, b, NULL);
    return unused;
}

int main(void)
{
    SIDE_BY_SIDE(a);
    x = 1;
    pthread_join(grandchild, NULL);
    return 0;
}
