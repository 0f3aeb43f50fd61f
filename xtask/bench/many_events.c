/* Four threads move values between slots of a table, each slot under its own lock; the argument is the number of rounds. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define SLOTS 16
#define THREADS 4

static struct {
    pthread_mutex_t mutex;
    long value;
} slots[SLOTS];

static int rounds;

static void *work(void *number)
{
    unsigned draw = (unsigned)(size_t)number * 2654435761u + 1;
    long own[8] = { 0 };
    for (int i = 0; i < rounds; i++) {
        draw = draw * 1664525u + 1013904223u;
        unsigned at = draw >> 20 & (SLOTS - 1);
        own[i & 7] += draw & 1;
        pthread_mutex_lock(&slots[at].mutex);
        slots[at].value += own[i & 7];
        pthread_mutex_unlock(&slots[at].mutex);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS];
    rounds = argc > 1 ? atoi(argv[1]) : 100;
    for (int i = 0; i < SLOTS; i++)
        pthread_mutex_init(&slots[i].mutex, NULL);
    for (size_t i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, work, (void *)i);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    long sum = 0;
    for (int i = 0; i < SLOTS; i++)
        sum += slots[i].value;
    printf("%ld\n", sum);
    return 0;
}
