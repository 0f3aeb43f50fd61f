/* Every read-modify-write operation on atomics of 1, 2, 4 and 8 bytes, with every memory order, by two
 * threads at once. Expected: the same final values in every schedule. */
#include "../support.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#define EXERCISE(type, name)                                                                            \
    static _Atomic type name;                                                                           \
    static void exercise_##name(int thread)                                                             \
    {                                                                                                   \
        type mine = (type)(1 << thread), other = (type)(4 << thread), seen;                             \
        atomic_fetch_add_explicit(&name, 48, memory_order_relaxed);                                     \
        atomic_fetch_or_explicit(&name, mine, memory_order_release);                                    \
        seen = atomic_load_explicit(&name, memory_order_acquire);                                       \
        while (!atomic_compare_exchange_weak_explicit(&name, &seen, seen | other, memory_order_acq_rel, \
                                                      memory_order_relaxed))                            \
            ;                                                                                           \
        atomic_fetch_and_explicit(&name, (type)~mine, memory_order_seq_cst);                            \
        atomic_fetch_xor_explicit(&name, mine, memory_order_consume);                                   \
        atomic_fetch_sub_explicit(&name, 32, memory_order_seq_cst);                                     \
        CHECK((atomic_load(&name) & (mine | other)) == (type)(mine | other));                           \
    }

EXERCISE(uint8_t, one_byte)
EXERCISE(uint16_t, two_bytes)
EXERCISE(uint32_t, four_bytes)
EXERCISE(uint64_t, eight_bytes)

static _Atomic(int *) baton;
static int tokens[3];

static void *worker(void *thread)
{
    int number = *(int *)thread;
    exercise_one_byte(number);
    exercise_two_bytes(number);
    exercise_four_bytes(number);
    exercise_eight_bytes(number);
    ++*atomic_exchange_explicit(&baton, &tokens[number], memory_order_acq_rel);
    return NULL;
}

int main(void)
{
    pthread_t threads[2];
    int numbers[2] = { 0, 1 };
    atomic_init(&baton, &tokens[2]);
    for (int i = 0; i < 2; i++)
        CHECK(pthread_create(&threads[i], NULL, worker, &numbers[i]) == 0);
    for (int i = 0; i < 2; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    ++*atomic_load(&baton);
    CHECK(tokens[0] == 1 && tokens[1] == 1 && tokens[2] == 1);
    printf("%d %d %d %d\n", one_byte, two_bytes, (int)four_bytes, (int)eight_bytes);
}
