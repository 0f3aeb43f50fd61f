/* Workers report their progress in an array, and a monitor polls it with sleeps until all of them are done. The argument
   is the number of steps of a worker. The error: the workers add to a common total without a lock. */
#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define WORKERS 3

static atomic_int progress[WORKERS];
static int steps;
static int total;
static int polls;

static int expensive(int worker, int step)
{
    return (worker * 31 + step * 17) % 7;
}

static void *work(void *argument)
{
    int worker = (int)(size_t)argument;
    int found = 0;
    for (int step = 0; step < steps; step++) {
        found += expensive(worker, step) == 3;
        atomic_store(&progress[worker], step + 1);
        if (step % 8 == 7)
            usleep(10);
    }
    total += steps;
    return (void *)(size_t)found;
}

static int is_done(int worker)
{
    return atomic_load(&progress[worker]) == steps;
}

static int all_done(void)
{
    int done = 0;
    for (int i = 0; i < WORKERS; i++)
        done += is_done(i);
    return done == WORKERS;
}

static void *monitor(void *unused)
{
    while (!all_done()) {
        polls++;
        usleep(100);
    }
    return unused;
}

int main(int argc, char **argv)
{
    pthread_t watcher, workers[WORKERS];
    steps = argc > 1 ? atoi(argv[1]) : 20;
    pthread_create(&watcher, NULL, monitor, NULL);
    for (size_t i = 0; i < WORKERS; i++)
        pthread_create(&workers[i], NULL, work, (void *)i);
    size_t found = 0;
    for (int i = 0; i < WORKERS; i++) {
        void *part;
        pthread_join(workers[i], &part);
        found += (size_t)part;
    }
    pthread_join(watcher, NULL);
    assert(total == WORKERS * steps);
    printf("%zu found, %d polls\n", found, polls);
    return 0;
}
