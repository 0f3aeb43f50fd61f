/* A log is closed and reopened while another thread logs (the paper's first case). */
#include "noise.h"
#include <stdlib.h>
enum { CLOSED, OPEN };
static volatile int log_state = OPEN;
static int missed;
static void *flush(void *a)
{
    log_state = CLOSED; /* ROOT */
    log_state = OPEN; /* ROOT */
    return a;
}
static void *insert(void *a)
{
    if (log_state == OPEN) /* ROOT */
        return a;
    missed = 1; /* CAUSE */
    return a;
}
int main(void)
{
    pthread_t a, b, c;
    pthread_create(&c, NULL, noise, NULL);
    pthread_create(&a, NULL, flush, NULL);
    pthread_create(&b, NULL, insert, NULL);
    pthread_join(a, NULL);
    pthread_join(b, NULL);
    pthread_join(c, NULL); /* UNRELATED */
    if (missed)
        abort(); /* CAUSE */
    return 0;
}
