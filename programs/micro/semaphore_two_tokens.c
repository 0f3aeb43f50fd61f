/* Two tokens let two in.
 * real: race x */
#include "micro.h"

int x, y;
sem_t s;

static void *a(void *unused)
{
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
    return unused;
}

int main(void)
{
    sem_init(&s, 0, 2);
    SIDE_BY_SIDE(a, b);
    return 0;
}
