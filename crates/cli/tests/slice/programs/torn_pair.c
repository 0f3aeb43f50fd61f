/* Of two related variables, one is read before and one after both change. */
#include "noise.h"
#include <stdlib.h>
static volatile int width = 4, height = 3;
static void *turn(void *p)
{
    width = 3; /* ROOT */
    height = 4; /* CAUSE */
    return p;
}
static void *measure(void *p)
{
    int area = width * height; /* ROOT */
    if (area == 16)
        abort(); /* CAUSE */
    return p;
}
int main(void)
{
    pthread_t a, b, c;
    pthread_create(&c, NULL, noise, NULL);
    pthread_create(&a, NULL, turn, NULL);
    pthread_create(&b, NULL, measure, NULL);
    pthread_join(a, NULL);
    pthread_join(b, NULL);
    pthread_join(c, NULL); /* UNRELATED */

    return 0;
}
