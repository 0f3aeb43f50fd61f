/* Main waits for one thread and reads what the other writes.
 * real: race x */
#include "micro.h"

int x, y;

static void *a(void *unused)
{
    y = 1;
    return unused;
}

static void *b(void *unused)
{
    sched_yield();
    x = 2;
    return unused;
}

int main(void)
{
    pthread_t first, second;
    pthread_create(&first, NULL, a, NULL);
    pthread_create(&second, NULL, b, NULL);
    pthread_join(first, NULL);
    y = x;
    pthread_join(second, NULL);
    return 0;
}
