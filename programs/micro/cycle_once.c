/* The once routine takes a lock that somebody holds who waits for the routine.
 * real: deadlock 2 */
#define _GNU_SOURCE
#include "micro.h"

pthread_mutex_t m = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
pthread_once_t o = PTHREAD_ONCE_INIT;

static void make(void)
{
    pthread_mutex_lock(&m);
    pthread_mutex_unlock(&m);
}

static void *t(void *unused)
{
    pthread_once(&o, make);
    return unused;
}

static void *u(void *unused)
{
    pthread_mutex_lock(&m);
    pthread_once(&o, make);
    pthread_mutex_unlock(&m);
    return unused;
}

int main(void)
{
    SIDE_BY_SIDE(t, u);
    return 0;
}
