/* Two OpenMP threads take two named critical sections in opposite orders. Expected: some schedule deadlocks. */
static int a, b;

int main(void)
{
#pragma omp parallel sections num_threads(2)
    {
#pragma omp section
        {
#pragma omp critical(first)
            {
                a++;
#pragma omp critical(second)
                b++;
            }
        }
#pragma omp section
        {
#pragma omp critical(second)
            {
                b++;
#pragma omp critical(first)
                a++;
            }
        }
    }
    return a + b - 4;
}
