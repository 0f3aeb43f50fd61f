// Each of THREADS threads adds STEPS times to one atomic counter. Any two additions of different threads conflict, so the
// number of inequivalent schedules is that of the orders of all additions.

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>

static atomic_int counter;

static void *add(void *unused) {
    for (int i = 0; i < STEPS; i++) {
        atomic_fetch_add(&counter, 1);
    }
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
    assert(counter == THREADS * STEPS);
}
