/* A pointer is published before what it points to is written. */
#include "noise.h"
#include <stdlib.h>
static int box, wrong;
static int *volatile published;
static void *give(void *p)
{
    published = &box; /* ROOT */
    *(volatile int *)&box = 42; /* ROOT */
    return p;
}
static void *take(void *p)
{
    int *found = published; /* ROOT */
    if (found)
        wrong = *(volatile int *)found != 42; /* ROOT */
    return p;
}
int main(void)
{
    pthread_t a, b, c;
    pthread_create(&c, NULL, noise, NULL);
    pthread_create(&a, NULL, give, NULL);
    pthread_create(&b, NULL, take, NULL);
    pthread_join(a, NULL);
    pthread_join(b, NULL);
    pthread_join(c, NULL); /* UNRELATED */
    if (wrong)
        abort(); /* CAUSE */

    return 0;
}
