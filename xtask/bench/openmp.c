/* Sums, critical sections, barriers and tasks by OpenMP, with some work to do in between. */
#include <stdio.h>

static long fibonacci(int n)
{
    long a, b;
    if (n < 2)
        return n;
    if (n < 8)
        return fibonacci(n - 1) + fibonacci(n - 2);
#pragma omp task shared(a)
    a = fibonacci(n - 1);
#pragma omp task shared(b)
    b = fibonacci(n - 2);
#pragma omp taskwait
    return a + b;
}

int main(void)
{
    static double cells[2][4096];
    double sum = 0;
    long rounds = 0, result = 0;
    for (int i = 0; i < 4096; i++)
        cells[0][i] = i % 17;
#pragma omp parallel
    for (int round = 0; round < 40; round++) {
        double *from = cells[round % 2], *to = cells[(round + 1) % 2];
#pragma omp for schedule(dynamic, 256)
        for (int i = 1; i < 4095; i++)
            to[i] = (from[i - 1] + from[i] + from[i + 1]) / 4;
#pragma omp critical
        rounds++;
#pragma omp barrier
    }
#pragma omp parallel for reduction(+ : sum)
    for (int i = 0; i < 4096; i++)
        sum += (long)(cells[0][i] * 1000);
#pragma omp parallel
#pragma omp single
    result = fibonacci(16);
    printf("%.0f %ld %ld\n", sum, rounds, result);
}
