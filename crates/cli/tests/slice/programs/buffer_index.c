/* The index of a buffer is updated without its lock (the paper's case of Apache). */
#include "noise.h"
#include <stdlib.h>
#include <string.h>
static char buffer[64];
static int used;
static void *append(void *text)
{
    int at = used; /* ROOT */
    memcpy(buffer + at, text, 4);
    used = at + 4; /* ROOT */
    return NULL;
}
int main(void)
{
    pthread_t a, b, c;
    pthread_create(&c, NULL, noise, NULL);
    pthread_create(&a, NULL, append, "aaaa");
    pthread_create(&b, NULL, append, "bbbb");
    pthread_join(a, NULL);
    pthread_join(b, NULL);
    pthread_join(c, NULL); /* UNRELATED */
    if (used != 8)
        abort(); /* CAUSE */
    return 0;
}
