/* Both threads find that there is enough before either takes it. */
#include "noise.h"
#include <stdlib.h>
static volatile int balance = 100;
static void *take(void *p)
{
    if (balance >= 80) /* ROOT */
        balance = balance - 80; /* ROOT */
    return p;
}
int main(void)
{
    pthread_t a, b, c;
    pthread_create(&c, NULL, noise, NULL);
    pthread_create(&a, NULL, take, NULL);
    pthread_create(&b, NULL, take, NULL);
    pthread_join(a, NULL);
    pthread_join(b, NULL);
    pthread_join(c, NULL); /* UNRELATED */
    if (balance < 0)
        abort(); /* CAUSE */
    return 0;
}
