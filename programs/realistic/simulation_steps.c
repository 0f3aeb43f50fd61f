/* A simulation in steps: each thread computes its cells, waits at a barrier made of a mutex and a condition, and goes on.
   The error: the barrier has no generation; a fast thread may enter it again before a slow one has left. */
#include <assert.h>
#include <pthread.h>
#include <stdio.h>

#define THREADS 3
#define STEPS 3
#define CELLS 2

struct barrier {
    pthread_mutex_t mutex;
    pthread_cond_t complete;
    int size;
    int arrived;
};

struct cell {
    int value;
    int step;
};

static struct barrier barrier = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, THREADS, 0};
static struct cell cells[THREADS][CELLS];
static int steps_done[THREADS];

static int is_complete(const struct barrier *barrier)
{
    return barrier->arrived == barrier->size;
}

static void wait_for_all(struct barrier *barrier)
{
    pthread_mutex_lock(&barrier->mutex);
    barrier->arrived++;
    if (is_complete(barrier)) {
        pthread_cond_broadcast(&barrier->complete);
        barrier->arrived = 0;
    } else {
        while (barrier->arrived != 0)
            pthread_cond_wait(&barrier->complete, &barrier->mutex);
    }
    pthread_mutex_unlock(&barrier->mutex);
}

static const struct cell *neighbour(int thread, int cell)
{
    return &cells[(thread + 1) % THREADS][cell];
}

static int value_of(const struct cell *cell)
{
    return cell->value;
}

static int next_value(int thread, int cell)
{
    int own = value_of(&cells[thread][cell]);
    int other = value_of(neighbour(thread, cell));
    return (own + other) / 2 + 1;
}

static void compute(int thread, int values[CELLS])
{
    for (int i = 0; i < CELLS; i++)
        values[i] = next_value(thread, i);
}

static void store(int thread, const int values[CELLS])
{
    for (int i = 0; i < CELLS; i++) {
        cells[thread][i].value = values[i];
        cells[thread][i].step++;
    }
}

static void *simulate(void *argument)
{
    int own = (int)(size_t)argument;
    for (int step = 0; step < STEPS; step++) {
        int values[CELLS];
        compute(own, values);
        wait_for_all(&barrier);
        store(own, values);
        wait_for_all(&barrier);
        steps_done[own]++;
    }
    return NULL;
}

static void initialise(void)
{
    for (int i = 0; i < THREADS; i++)
        for (int j = 0; j < CELLS; j++)
            cells[i][j].value = 10 * i + j;
}

static int sum(void)
{
    int total = 0;
    for (int i = 0; i < THREADS; i++)
        for (int j = 0; j < CELLS; j++)
            total += cells[i][j].value;
    return total;
}

int main(void)
{
    pthread_t threads[THREADS];
    initialise();
    for (size_t i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, simulate, (void *)i);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < THREADS; i++)
        assert(steps_done[i] == STEPS);
    printf("sum %d\n", sum());
    return 0;
}
