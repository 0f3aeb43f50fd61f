/* Written before the post, and after the wait.
 * real: none */
#include "micro.h"

int x, y;
sem_t s;

static void *a(void *unused)
{
    x = 1;
    sem_post(&s);
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
