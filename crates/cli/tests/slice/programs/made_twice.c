/* Both threads find that the object does not exist yet, and allocate it. */
#include "noise.h"
#include <stdlib.h>
static int *volatile made;
static void *use(void *p)
{
    if (!made) /* ROOT */
        made = calloc(1, sizeof *made); /* ROOT */
    int *mine = made;
    *mine = *mine + 1; /* CAUSE */
    return p;
}
int main(void)
{
    pthread_t a, b, c;
    pthread_create(&c, NULL, noise, NULL);
    pthread_create(&a, NULL, use, NULL);
    pthread_create(&b, NULL, use, NULL);
    pthread_join(a, NULL);
    pthread_join(b, NULL);
    pthread_join(c, NULL); /* UNRELATED */
    if (*made != 2)
        abort(); /* CAUSE */
    return 0;
}
