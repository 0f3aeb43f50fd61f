/* main leaves by pthread_exit while a detached and a joinable thread go on; the last thread to end ends
 * the process. Expected: the whole output, then exit 0. */
#include "../support.h"

#include <pthread.h>
#include <semaphore.h>

static sem_t first_done;

static void *first(void *unused)
{
    puts("first");
    sem_post(&first_done);
    return unused;
}

static void *second(void *first_thread)
{
    sem_wait(&first_done);
    CHECK(pthread_join(*(pthread_t *)first_thread, NULL) == 0);
    puts("second");
    return NULL;
}

int main(void)
{
    static pthread_t first_thread, second_thread;
    sem_init(&first_done, 0, 0);
    CHECK(pthread_create(&first_thread, NULL, first, NULL) == 0);
    CHECK(pthread_create(&second_thread, NULL, second, &first_thread) == 0);
    CHECK(pthread_detach(second_thread) == 0);
    pthread_exit(NULL);
}
