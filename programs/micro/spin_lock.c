/* A spin lock.
 * real: none */
#include "micro.h"

int x;
pthread_spinlock_t s;

static void *a(void *unused)
{
    pthread_spin_lock(&s);
    x++;
    pthread_spin_unlock(&s);
    return unused;
}

static void *b(void *unused)
{
    pthread_spin_lock(&s);
    x++;
    pthread_spin_unlock(&s);
    return unused;
}

int main(void)
{
    pthread_spin_init(&s, 0);
    SIDE_BY_SIDE(a, b);
    return 0;
}
