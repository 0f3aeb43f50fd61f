/* Only who gets the lock goes in.
 * real: none */
#include "micro.h"

int x;
pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;

static void *a(void *unused)
{
    if (pthread_mutex_trylock(&m) == 0) {
        x++;
        pthread_mutex_unlock(&m);
    }
    return unused;
}

static void *b(void *unused)
{
    LOCKED(m, x++);
    return unused;
}

int main(void)
{
    SIDE_BY_SIDE(a, b);
    return 0;
}
