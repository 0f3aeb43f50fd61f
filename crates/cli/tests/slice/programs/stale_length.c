/* A length is read, and the text is cleared before the length is used. */
#include "noise.h"
#include <stdlib.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static volatile int length = 5;
static int ask(void)
{
    pthread_mutex_lock(&lock);
    int now = length; /* ROOT */
    pthread_mutex_unlock(&lock);
    return now;
}
static void *clear(void *p)
{
    pthread_mutex_lock(&lock);
    length = 0; /* ROOT */
    pthread_mutex_unlock(&lock);
    return p;
}
static void *copy(void *p)
{
    int first = ask();
    int second = ask();
    if (first != second)
        abort(); /* CAUSE */
    return p;
}
int main(void)
{
    pthread_t a, b, c;
    pthread_create(&c, NULL, noise, NULL);
    pthread_create(&a, NULL, clear, NULL);
    pthread_create(&b, NULL, copy, NULL);
    pthread_join(a, NULL);
    pthread_join(b, NULL);
    pthread_join(c, NULL); /* UNRELATED */

    return 0;
}
