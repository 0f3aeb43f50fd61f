/* A named semaphore opened twice is the same semaphore; it goes on working after sem_unlink, when its name
 * is gone. Expected: exit 0. */
#include "../support.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <unistd.h>

static sem_t *tokens;

static void *post_twice(void *unused)
{
    CHECK(sem_post(tokens) == 0);
    CHECK(sem_post(tokens) == 0);
    return unused;
}

int main(void)
{
    char name[64];
    pthread_t thread;
    int value;
    snprintf(name, sizeof name, "/unsnarl-program-%d", (int)getpid());
    sem_unlink(name);
    tokens = sem_open(name, O_CREAT | O_EXCL, 0600, 1);
    CHECK(tokens != SEM_FAILED);
    CHECK(sem_open(name, O_CREAT | O_EXCL, 0600, 1) == SEM_FAILED && errno == EEXIST);
    sem_t *again = sem_open(name, 0);
    CHECK(again == tokens);
    CHECK(sem_unlink(name) == 0);
    CHECK(sem_open(name, 0) == SEM_FAILED && errno == ENOENT);

    CHECK(pthread_create(&thread, NULL, post_twice, NULL) == 0);
    for (int i = 0; i < 3; i++)
        CHECK(sem_wait(again) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(sem_getvalue(tokens, &value) == 0 && value == 0);
    CHECK(sem_close(again) == 0 && sem_close(tokens) == 0);
}
