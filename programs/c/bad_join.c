/* Two joins that cannot be: of a detached thread (EINVAL) and of itself (EDEADLK). Expected: exit 0 with a
 * warning, in every schedule. */
#include "../support.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>

static sem_t may_end;

static void *ends_when_signalled(void *unused)
{
    sem_wait(&may_end);
    return unused;
}

static void *joins_itself(void *unused)
{
    CHECK(pthread_join(pthread_self(), NULL) == EDEADLK);
    return unused;
}

int main(void)
{
    pthread_t detached, selfish;
    sem_init(&may_end, 0, 0);
    CHECK(pthread_create(&detached, NULL, ends_when_signalled, NULL) == 0);
    CHECK(pthread_detach(detached) == 0);
    CHECK(pthread_join(detached, NULL) == EINVAL);
    sem_post(&may_end);
    CHECK(pthread_create(&selfish, NULL, joins_itself, NULL) == 0);
    CHECK(pthread_join(selfish, NULL) == 0);
}
