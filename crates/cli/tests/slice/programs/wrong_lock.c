/* Each thread takes a lock, but not the same one. */
#include "noise.h"
#include <stdlib.h>
static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER, two = PTHREAD_MUTEX_INITIALIZER;
static volatile int visits;
static void *left(void *p)
{
    pthread_mutex_lock(&one);
    visits = visits + 1; /* ROOT */
    pthread_mutex_unlock(&one);
    return p;
}
static void *right(void *p)
{
    pthread_mutex_lock(&two);
    visits = visits + 1; /* ROOT */
    pthread_mutex_unlock(&two);
    return p;
}
int main(void)
{
    pthread_t a, b, c;
    pthread_create(&c, NULL, noise, NULL);
    pthread_create(&a, NULL, left, NULL);
    pthread_create(&b, NULL, right, NULL);
    pthread_join(a, NULL);
    pthread_join(b, NULL);
    pthread_join(c, NULL); /* UNRELATED */
    if (visits != 2)
        abort(); /* CAUSE */
    return 0;
}
