/* Posted before it is written.
 * real: race x */
#include "micro.h"

int x, y;
sem_t s;

static void *a(void *unused)
{
    sem_post(&s);
    x = 1;
    return unused;
}

static void *b(void *unused)
{
    sem_wait(&s);
    x = 2;
    return unused;
}

int main(void)
{
    sem_init(&s, 0, 0);
    SIDE_BY_SIDE(a, b);
    return 0;
}
