/* A lock-free stack of the numbers of free cells, after Dmitry Vyukov's puzzle: to pop takes the next cell
 * out of the top one by an exchange, so that nobody else can pop it meanwhile, then moves the top. A cell
 * must belong to one thread at a time. Expected: the assertion fails, but that takes three threads and
 * seven preemptions, which about one in a million random schedules has. */
#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>

enum { CELLS = 3, THREADS = 3, ROUNDS = 2, NONE = -1 };

static struct cell {
    atomic_int next;
    atomic_bool is_taken;
} cells[CELLS];
static atomic_int top, free_cells = CELLS;

static int pop(void)
{
    while (atomic_load(&free_cells) > 1) {
        int cell = atomic_load(&top);
        int next = atomic_exchange(&cells[cell].next, NONE);
        if (next == NONE)
            continue;
        int expected = cell;
        if (atomic_compare_exchange_strong(&top, &expected, next)) {
            atomic_fetch_sub(&free_cells, 1);
            return cell;
        }
        atomic_exchange(&cells[cell].next, next);
    }
    return NONE;
}

static void push(int cell)
{
    int next = atomic_load(&top);
    do
        atomic_store(&cells[cell].next, next);
    while (!atomic_compare_exchange_strong(&top, &next, cell));
    atomic_fetch_add(&free_cells, 1);
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
        assert(!was_taken); /* FAIL */
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
