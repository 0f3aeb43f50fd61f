/* Two bit-fields in one byte, each set by its own thread (the paper's last case). */
#include "noise.h"
#include <stdlib.h>
static volatile struct bits {
    unsigned char is_a : 1;
    unsigned char is_b : 1;
} flags;
static void *set_a(void *p)
{
    struct bits now = flags;
    now.is_a = 1;
    flags = now; /* ROOT */
    return p;
}
static void *set_b(void *p)
{
    struct bits now = flags;
    now.is_b = 1;
    flags = now; /* ROOT */
    return p;
}
int main(void)
{
    pthread_t a, b, c;
    pthread_create(&c, NULL, noise, NULL);
    pthread_create(&a, NULL, set_a, NULL);
    pthread_create(&b, NULL, set_b, NULL);
    pthread_join(a, NULL);
    pthread_join(b, NULL);
    pthread_join(c, NULL); /* UNRELATED */
    if (!flags.is_a || !flags.is_b)
        abort(); /* CAUSE */
    return 0;
}
