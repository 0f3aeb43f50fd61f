/* The status of the program comes from a lost update. */
#include "noise.h"
#include <stdlib.h>
static volatile int errors;
static void *fail(void *p)
{
    int seen = errors; /* ROOT */
    errors = seen + 1; /* ROOT */
    return p;
}
int main(void)
{
    pthread_t a, b, c;
    pthread_create(&c, NULL, noise, NULL);
    pthread_create(&a, NULL, fail, NULL);
    pthread_create(&b, NULL, fail, NULL);
    pthread_join(a, NULL);
    pthread_join(b, NULL);
    pthread_join(c, NULL); /* UNRELATED */
    if (errors != 2) /* CAUSE */
        return 7;
    return 0;
}
