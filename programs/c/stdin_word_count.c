/* One thread reads words from standard input, another counts those that start with the letter given as
 * argument. Expected: the count, the same in every schedule and in a replay without that standard input. */
#include "../support.h"

#include <pthread.h>
#include <semaphore.h>

static sem_t filled, emptied;
static char word[32];

static void *read_words(void *unused)
{
    int is_last = 0;
    while (!is_last) {
        sem_wait(&emptied);
        is_last = scanf("%31s", word) != 1;
        if (is_last)
            word[0] = '\0';
        sem_post(&filled);
    }
    return unused;
}

int main(int argc, char **argv)
{
    pthread_t thread;
    int count = 0;
    CHECK(argc == 2);
    sem_init(&filled, 0, 0);
    sem_init(&emptied, 0, 1);
    CHECK(pthread_create(&thread, NULL, read_words, NULL) == 0);
    for (;;) {
        sem_wait(&filled);
        if (word[0] == '\0')
            break;
        count += word[0] == argv[1][0];
        sem_post(&emptied);
    }
    CHECK(pthread_join(thread, NULL) == 0);
    printf("%d\n", count);
}
