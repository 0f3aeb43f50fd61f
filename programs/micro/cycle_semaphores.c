/* Two semaphores as mutexes in two orders.
 * real: deadlock 2 */
#include "micro.h"

sem_t r, s;

static void *t(void *unused)
{
    sem_wait(&r);
    sem_wait(&s);
    sem_post(&s);
    sem_post(&r);
    return unused;
}

static void *u(void *unused)
{
    sem_wait(&s);
    sem_wait(&r);
    sem_post(&r);
    sem_post(&s);
    return unused;
}

int main(void)
{
    sem_init(&r, 0, 1);
    sem_init(&s, 0, 1);
    SIDE_BY_SIDE(t, u);
    return 0;
}
