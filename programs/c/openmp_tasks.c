/* OpenMP tasks: children that a taskwait waits for, descendants that a taskgroup waits for, tasks of a loop, one that is
 * not deferred, and values that are copied. Expected: the same result by every schedule, and no race. */
#include "../support.h"

enum { LENGTH = 6 };

struct pair {
    int first, second;
};

static int values[LENGTH], squares[LENGTH];

static void fill(int from, int to)
{
    if (to - from <= 2) {
        for (int i = from; i < to; i++)
            values[i] = i;
        return;
    }
    int middle = from + (to - from) / 2;
#pragma omp task
    fill(from, middle);
    fill(middle, to);
    /* Not waited for here: the task group does. */
}

int main(void)
{
    int sum = 0, difference = 0;
#pragma omp parallel num_threads(2)
#pragma omp single
    {
#pragma omp taskgroup
        fill(0, LENGTH);
#pragma omp taskloop grainsize(2)
        for (int i = 0; i < LENGTH; i++)
            squares[i] = values[i] * values[i];
        struct pair pair = {5, 3};
#pragma omp task shared(difference) firstprivate(pair)
        difference = pair.first - pair.second;
        pair.first = 0;
#pragma omp task if (0) shared(sum)
        for (int i = 0; i < LENGTH; i++)
            sum += squares[i];
#pragma omp taskwait
        sum += difference;
    }
    CHECK(sum == 55 + 2);
}
