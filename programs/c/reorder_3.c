/* Two threads set a, then b; one thread looks. Expected: it looks between the two, and the assertion
 * fails. */
#define THREADS 3
#include "../reorder.h"
