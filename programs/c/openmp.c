/* OpenMP by gcc's library: a reduction, critical sections, barriers, single, tasks, a dynamic loop, locks of both kinds. Expected: the
 * same result by every schedule. */
#include "../support.h"

#include <omp.h>

static long fibonacci(int n)
{
    long a, b;
    if (n < 2)
        return n;
#pragma omp task shared(a)
    a = fibonacci(n - 1);
#pragma omp task shared(b)
    b = fibonacci(n - 2);
#pragma omp taskwait
    return a + b;
}

int main(void)
{
    long sum = 0, hits = 0, rounds = 0, result = 0, most = 0;
    omp_lock_t lock;
    omp_nest_lock_t nested;
    omp_init_lock(&lock);
    omp_init_nest_lock(&nested);

#pragma omp parallel for reduction(+ : sum) num_threads(3)
    for (int i = 0; i < 100; i++)
        sum += i;

#pragma omp parallel num_threads(3)
    for (int i = 0; i < 2; i++) {
#pragma omp critical
        hits++;
#pragma omp barrier
#pragma omp single
        rounds++;
#pragma omp critical(largest)
        most = hits > most ? hits : most;
    }

#pragma omp parallel num_threads(3)
#pragma omp single
    result = fibonacci(5);

#pragma omp parallel for schedule(dynamic) num_threads(2)
    for (int i = 0; i < 6; i++) {
#pragma omp atomic
        sum -= i;
        omp_set_lock(&lock);
        hits++;
        omp_unset_lock(&lock);
        omp_set_nest_lock(&nested);
        if (omp_test_nest_lock(&nested) == 2)
            omp_unset_nest_lock(&nested);
        rounds++;
        omp_unset_nest_lock(&nested);
    }

    omp_destroy_lock(&lock);
    omp_destroy_nest_lock(&nested);
    CHECK(sum == 4950 - 15);
    CHECK(hits == 3 * 2 + 6);
    CHECK(rounds == 2 + 6);
    CHECK(most == 6);
    CHECK(result == 5);
}
