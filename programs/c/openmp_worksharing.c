/* OpenMP's ways to share work: an ordered loop, sections, a loop without a barrier whose result is used after a later one,
 * a value copied from the thread that read it, a dynamic loop and a reduction. Expected: the same result by every
 * schedule, and no race. */
#include "../support.h"

enum { LENGTH = 4 };

int main(void)
{
    int last = 0, in_order = 1, a = 0, b = 0, squares[LENGTH], reversed[LENGTH], copies = 0, sum = 0, input = 0;

#pragma omp parallel for ordered schedule(static, 1) num_threads(2)
    for (int i = 1; i <= LENGTH; i++) {
#pragma omp ordered
        {
            in_order &= last == i - 1;
            last = i;
        }
    }

#pragma omp parallel num_threads(2) private(input)
    {
#pragma omp sections
        {
            a = 3;
#pragma omp section
            b = 4;
        }
#pragma omp for nowait
        for (int i = 0; i < LENGTH; i++)
            squares[i] = i * i + a + b;
#pragma omp single copyprivate(input)
        input = 5;
#pragma omp critical
        copies += input;
#pragma omp barrier
#pragma omp for schedule(dynamic)
        for (int i = 0; i < LENGTH; i++)
            reversed[i] = squares[LENGTH - 1 - i];
#pragma omp for reduction(+ : sum)
        for (int i = 0; i < LENGTH; i++)
            sum += reversed[i];
    }
    CHECK(in_order && last == LENGTH);
    CHECK(copies == 10);
    CHECK(sum == 14 + LENGTH * 7);
}
