/* Four threads get an argument and give back its square through pthread_join. Expected: the same line
 * whatever the schedule. */
#include "../support.h"

#include <pthread.h>
#include <stdint.h>

enum { THREADS = 4 };

static pthread_t self_of[THREADS];

static void *square(void *argument)
{
    intptr_t n = (intptr_t)argument;
    self_of[n] = pthread_self();
    return (void *)(n * n);
}

int main(void)
{
    pthread_t threads[THREADS];
    for (intptr_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, square, (void *)i) == 0);
    for (int i = 0; i < THREADS; i++) {
        void *result;
        CHECK(pthread_join(threads[i], &result) == 0);
        CHECK(pthread_equal(threads[i], self_of[i]));
        printf("%d%c", (int)(intptr_t)result, i + 1 < THREADS ? ' ' : '\n');
    }
}
