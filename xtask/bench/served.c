/* Workers that serve their own requests, and two that share a log without its lock. served N: N rounds each. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define WORKERS 6
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t tables[WORKERS][1024];
static long served;
static char log_text[64];
static int log_used;
static long rounds = 20000;
static void *serve(void *id)
{
    uint64_t *table = tables[(intptr_t)id];
    uint64_t state = 88172645463325252ull + (intptr_t)id;
    for (long i = 0; i < rounds; i++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        table[state % 1024] += i;
        if (i % (rounds / 4) == 0) {
            pthread_mutex_lock(&lock);
            served++;
            pthread_mutex_unlock(&lock);
        }
    }
    return NULL;
}
static void *append(void *text)
{
    int at = log_used;
    memcpy(log_text + at, text, 4);
    log_used = at + 4;
    return NULL;
}
int main(int argc, char **argv)
{
    if (argc > 1)
        rounds = atol(argv[1]);
    pthread_t threads[WORKERS + 2];
    for (intptr_t i = 0; i < WORKERS; i++)
        pthread_create(&threads[i], NULL, serve, (void *)i);
    pthread_create(&threads[WORKERS], NULL, append, "aaaa");
    pthread_create(&threads[WORKERS + 1], NULL, append, "bbbb");
    for (int i = 0; i < WORKERS + 2; i++)
        pthread_join(threads[i], NULL);
    if (log_used != 8) {
        fprintf(stderr, "the log has %d bytes\n", log_used);
        abort();
    }
    return 0;
}
