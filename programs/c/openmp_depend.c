/* OpenMP tasks that are ordered only by their dependences: a pipeline of three stages over four blocks, then a diamond.
 * Expected: the same result by every schedule, and no race. */
#include "../support.h"

enum { BLOCKS = 4 };

static int blocks[BLOCKS], total;

static int diamond(void)
{
    int top = 0, left = 0, right = 0, bottom = 0;
#pragma omp task depend(out : top) shared(top)
    top = 1;
#pragma omp task depend(in : top) depend(out : left) shared(top, left)
    left = top + 1;
#pragma omp task depend(in : top) depend(out : right) shared(top, right)
    right = top + 2;
#pragma omp task depend(in : left, right) depend(out : bottom) shared(left, right, bottom)
    bottom = left * right;
#pragma omp taskwait depend(in : bottom)
    int result = bottom;
#pragma omp taskwait
    return result;
}

int main(void)
{
    int result = 0;
#pragma omp parallel num_threads(2)
#pragma omp single
    {
        for (int i = 0; i < BLOCKS; i++) {
#pragma omp task depend(out : blocks[i]) firstprivate(i)
            blocks[i] = i + 1;
#pragma omp task depend(inout : blocks[i]) firstprivate(i)
            blocks[i] *= 10;
#pragma omp task depend(in : blocks[i]) depend(inout : total) firstprivate(i)
            total += blocks[i];
        }
        result = diamond();
    }
    CHECK(total == 100);
    CHECK(result == 6);
}
