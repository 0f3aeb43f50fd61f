/* Both threads read the counter before either writes it. */
#include "noise.h"
#include <stdlib.h>
static volatile int counter;
static void *count(void *p)
{
    int seen = counter; /* ROOT */
    counter = seen + 1; /* ROOT */
    return p;
}
int main(void)
{
    pthread_t a, b, c;
    pthread_create(&c, NULL, noise, NULL);
    pthread_create(&a, NULL, count, NULL);
    pthread_create(&b, NULL, count, NULL);
    pthread_join(a, NULL);
    pthread_join(b, NULL);
    pthread_join(c, NULL); /* UNRELATED */
    if (counter != 2)
        abort(); /* CAUSE */
    return 0;
}
