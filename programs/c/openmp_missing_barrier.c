/* A loop has no barrier at its end, and the next one reads what another thread writes. Expected: some schedule reads it too
 * early. */
#include <assert.h>

int main(void)
{
    int squares[2] = {-1, -1}, found[2] = {0, 0};
#pragma omp parallel num_threads(2)
    {
#pragma omp for nowait
        for (int i = 0; i < 2; i++)
            squares[i] = i * i;
#pragma omp for
        for (int i = 0; i < 2; i++)
            found[i] = squares[1 - i];
    }
    assert(found[0] == 1 && found[1] == 0); /* FAIL */
}
