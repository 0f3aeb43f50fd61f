/* Two locks in two orders. */
#include "noise.h"
static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER, two = PTHREAD_MUTEX_INITIALIZER;
static void *left(void *p)
{
    pthread_mutex_lock(&one); /* ROOT */
    pthread_mutex_lock(&two); /* ROOT */
    pthread_mutex_unlock(&two);
    pthread_mutex_unlock(&one);
    return p;
}
static void *right(void *p)
{
    pthread_mutex_lock(&two); /* ROOT */
    pthread_mutex_lock(&one); /* ROOT */
    pthread_mutex_unlock(&one);
    pthread_mutex_unlock(&two);
    return p;
}
int main(void)
{
    pthread_t a, b, c;
    pthread_create(&c, NULL, noise, NULL);
    pthread_create(&a, NULL, left, NULL);
    pthread_create(&b, NULL, right, NULL);
    pthread_join(a, NULL);
    pthread_join(b, NULL);
    pthread_join(c, NULL); /* UNRELATED */
    return 0;
}
