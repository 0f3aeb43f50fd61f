/* OpenMP threads count without a critical section. Expected: some schedule loses an update. */
#include <assert.h>

int main(void)
{
    int hits = 0;
#pragma omp parallel num_threads(2)
    hits++;
    assert(hits == 2); /* FAIL */
}
