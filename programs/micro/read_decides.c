/* Whether the second thread writes depends on what it reads under the lock: no race, whatever the order.
 * real: none */
#include "micro.h"

int ready, x;
pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;

static void *a(void *unused)
{
    x = 1;
    LOCKED(m, ready = 1);
    return unused;
}

static void *b(void *unused)
{
    pthread_mutex_lock(&m);
    int is_ready = ready;
    pthread_mutex_unlock(&m);
    if (is_ready)
        x = 2;
    return unused;
}

int main(void)
{
    SIDE_BY_SIDE(a, b);
    return 0;
}
