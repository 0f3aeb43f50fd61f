/* Only one of them goes through the gate.
 * real: deadlock 2 */
#include "micro.h"

pthread_mutex_t g = PTHREAD_MUTEX_INITIALIZER, a = PTHREAD_MUTEX_INITIALIZER, b = PTHREAD_MUTEX_INITIALIZER;

static void *t(void *unused)
{
    pthread_mutex_lock(&g);
    pthread_mutex_lock(&a);
    pthread_mutex_lock(&b);
    pthread_mutex_unlock(&b);
    pthread_mutex_unlock(&a);
    pthread_mutex_unlock(&g);
    return unused;
}

static void *u(void *unused)
{
    pthread_mutex_lock(&b);
    pthread_mutex_lock(&a);
    pthread_mutex_unlock(&a);
    pthread_mutex_unlock(&b);
    return unused;
}

int main(void)
{
    SIDE_BY_SIDE(t, u);
    return 0;
}
