/* A lock-free stack of the numbers of free cells, whose top carries a tag that is new with every change,
 * so that an old top is never taken for the present one. Expected: a cell belongs to one thread at a time.
 * */
#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { CELLS = 2, THREADS = 3, ROUNDS = 2, NONE = -1 };

struct top {
    int32_t cell;
    uint32_t tag;
};

static struct cell {
    atomic_int next;
    atomic_bool is_taken;
} cells[CELLS];
static _Atomic struct top top;

static int pop(void)
{
    struct top seen = atomic_load(&top);
    while (seen.cell != NONE) {
        struct top below = { atomic_load(&cells[seen.cell].next), seen.tag + 1 };
        if (atomic_compare_exchange_strong(&top, &seen, below))
            break;
    }
    return seen.cell;
}

static void push(int cell)
{
    struct top seen = atomic_load(&top), above;
    do {
        atomic_store(&cells[cell].next, seen.cell);
        above = (struct top){ cell, seen.tag + 1 };
    } while (!atomic_compare_exchange_strong(&top, &seen, above));
}

static void *use_cells(void *unused)
{
    for (int round = 0; round < ROUNDS; round++) {
        int cell = pop();
        while (cell == NONE) {
            sched_yield();
            cell = pop();
        }
        bool was_taken = atomic_exchange(&cells[cell].is_taken, true);
        assert(!was_taken);
        atomic_store(&cells[cell].is_taken, false);
        push(cell);
    }
    return unused;
}

int main(void)
{
    pthread_t threads[THREADS];
    for (int i = 0; i < CELLS; i++)
        atomic_init(&cells[i].next, i + 1 < CELLS ? i + 1 : NONE);
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, use_cells, NULL);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
