/* Two OpenMP tasks update a total, but only one of them names it as a dependence. Expected: some schedule loses an
 * update. */
#include <assert.h>

int main(void)
{
    int total = 0;
#pragma omp parallel num_threads(2)
#pragma omp single
    {
#pragma omp task depend(inout : total) shared(total)
        total += 1;
#pragma omp task shared(total)
        total += 10;
#pragma omp taskwait
    }
    assert(total == 11); /* FAIL */
}
