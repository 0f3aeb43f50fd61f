/* Three ways to be detached: by the creator, by the thread itself, by attribute. Expected: all three do
 * their work before main returns. */
#include "../support.h"

#include <pthread.h>
#include <semaphore.h>

static sem_t may_go, done;

static void *worker(void *detach_self)
{
    if (detach_self)
        CHECK(pthread_detach(pthread_self()) == 0);
    sem_wait(&may_go);
    sem_post(&done);
    return NULL;
}

int main(void)
{
    pthread_t by_creator, by_itself, by_attribute;
    pthread_attr_t attr;
    sem_init(&may_go, 0, 0);
    sem_init(&done, 0, 0);

    CHECK(pthread_create(&by_creator, NULL, worker, NULL) == 0);
    CHECK(pthread_detach(by_creator) == 0);
    CHECK(pthread_create(&by_itself, NULL, worker, "detach yourself") == 0);
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    CHECK(pthread_create(&by_attribute, &attr, worker, NULL) == 0);
    pthread_attr_destroy(&attr);

    for (int i = 0; i < 3; i++)
        sem_post(&may_go);
    for (int i = 0; i < 3; i++)
        sem_wait(&done);
}
