// One thread stores a value, READERS threads load it. Loads do not conflict with each other, so the inequivalent schedules
// differ in which readers are early: two to the power of READERS.

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>

static atomic_int value;

static void *load(void *unused) {
    assert(atomic_load(&value) < 2);
    return unused;
}

int main(void) {
    pthread_t readers[READERS];
    for (int i = 0; i < READERS; i++) {
        pthread_create(&readers[i], NULL, load, NULL);
    }
    atomic_store(&value, 1);
    for (int i = 0; i < READERS; i++) {
        pthread_join(readers[i], NULL);
    }
}
