/* What a thread is given is written before it is created.
 * real: none */
#include "micro.h"



static void *a(void *argument)
{
    ++*(int *)argument;
    return NULL;
}

int main(void)
{
    int own = 1;
    pthread_t thread;
    pthread_create(&thread, NULL, a, &own);
    pthread_join(thread, NULL);
    own++;
    return 0;
}
