/* The order of taking the token hides the race.
 * real: race y */
#include "micro.h"

int x, y;
sem_t s;

static void *a(void *unused)
{
    y = 1;
    sem_wait(&s);
    x++;
    sem_post(&s);
    return unused;
}

static void *b(void *unused)
{
    sem_wait(&s);
    x++;
    sem_post(&s);
    y = 2;
    return unused;
}

int main(void)
{
    sem_init(&s, 0, 1);
    SIDE_BY_SIDE(a, b);
    return 0;
}
