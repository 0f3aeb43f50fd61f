/* Two threads each need both of two tokens and take them in opposite order; semaphores have no owner to
 * name. Expected: deadlock when each has one token. */
#include <pthread.h>
#include <semaphore.h>

static sem_t tokens[2];

static void *take_both(void *first_token)
{
    sem_t *first = first_token, *second = first == &tokens[0] ? &tokens[1] : &tokens[0];
    sem_wait(first);
    sem_wait(second);
    sem_post(second);
    sem_post(first);
    return NULL;
}

int main(void)
{
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        sem_init(&tokens[i], 0, 1);
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, take_both, &tokens[i]);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
