// Each of THREADS threads adds to one atomic counter and then to another one. The orders at the two counters are independent
// of each other.

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>

static atomic_int first, second;

static void *add(void *unused) {
    atomic_fetch_add(&first, 1);
    atomic_fetch_add(&second, 1);
    return unused;
}

int main(void) {
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        pthread_create(&threads[i], NULL, add, NULL);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    assert(first == THREADS && second == THREADS);
}
