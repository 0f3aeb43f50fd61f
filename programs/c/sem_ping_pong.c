/* Two threads alternate strictly by two semaphores. Expected: the same line in every schedule. */
#include "../support.h"

#include <pthread.h>
#include <semaphore.h>

static sem_t ping_turn, pong_turn;

static void *ping(void *unused)
{
    for (int i = 0; i < 3; i++) {
        sem_wait(&ping_turn);
        fputs("ping ", stdout);
        sem_post(&pong_turn);
    }
    return unused;
}

static void *pong(void *unused)
{
    for (int i = 0; i < 3; i++) {
        sem_wait(&pong_turn);
        fputs(i < 2 ? "pong " : "pong\n", stdout);
        sem_post(&ping_turn);
    }
    return unused;
}

int main(void)
{
    pthread_t threads[2];
    sem_init(&ping_turn, 0, 1);
    sem_init(&pong_turn, 0, 0);
    CHECK(pthread_create(&threads[0], NULL, pong, NULL) == 0);
    CHECK(pthread_create(&threads[1], NULL, ping, NULL) == 0);
    for (int i = 0; i < 2; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
}
