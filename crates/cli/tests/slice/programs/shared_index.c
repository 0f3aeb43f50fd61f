/* Both threads take the same piece of work. */
#include "noise.h"
#include <stdlib.h>
static volatile int next;
static volatile int done[4];
static void *work(void *p)
{
    int mine = next; /* ROOT */
    next = mine + 1; /* ROOT */
    done[mine] = done[mine] + 1; /* CAUSE */
    return p;
}
int main(void)
{
    pthread_t a, b, c;
    pthread_create(&c, NULL, noise, NULL);
    pthread_create(&a, NULL, work, NULL);
    pthread_create(&b, NULL, work, NULL);
    pthread_join(a, NULL);
    pthread_join(b, NULL);
    pthread_join(c, NULL); /* UNRELATED */
    if (done[0] > 1)
        abort(); /* CAUSE */
    return 0;
}
