/* A pair of 64-bit halves is changed as one atomic of 16 bytes. Expected: the halves always agree. */
#include "../support.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

typedef unsigned __int128 pair;

static _Atomic pair both;

static pair next(pair value)
{
    uint64_t half = (uint64_t)value + 1;
    return (pair)half << 64 | half;
}

static void *advance(void *unused)
{
    for (int i = 0; i < 2; i++) {
        pair seen = atomic_load(&both);
        CHECK((uint64_t)seen == (uint64_t)(seen >> 64));
        while (!atomic_compare_exchange_weak(&both, &seen, next(seen)))
            ;
    }
    return unused;
}

int main(void)
{
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        CHECK(pthread_create(&threads[i], NULL, advance, NULL) == 0);
    for (int i = 0; i < 2; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    pair last = atomic_exchange(&both, 0);
    printf("%d %d\n", (int)(uint64_t)last, (int)(uint64_t)(last >> 64));
}
