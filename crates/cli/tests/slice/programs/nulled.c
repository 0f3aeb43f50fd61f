/* A pointer is set to null between the test and the use. */
#include "noise.h"
#include <stdlib.h>
static int value = 1;
static int *volatile current = &value;
static void *close_it(void *p)
{
    current = NULL; /* ROOT */
    return p;
}
static void *use(void *p)
{
    if (current) /* CAUSE */
        *current = 2; /* ROOT */
    return p;
}
int main(void)
{
    pthread_t a, b, c;
    pthread_create(&c, NULL, noise, NULL);
    pthread_create(&a, NULL, close_it, NULL);
    pthread_create(&b, NULL, use, NULL);
    pthread_join(a, NULL);
    pthread_join(b, NULL);
    pthread_join(c, NULL); /* UNRELATED */

    return 0;
}
