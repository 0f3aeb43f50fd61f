/* Unrelated work: no line of it belongs in a slice. */
#include <pthread.h>

static unsigned noise_sums[64];
static unsigned noise_state = 12345;

static void *noise(void *a)
{
    for (unsigned i = 1; i < 64; i++) {
        noise_state = noise_state * 1103515245 + 12345;
        noise_sums[i] = noise_sums[i - 1] + noise_state % i;
    }
    return a;
}
