/* Four threads set a, then b; one thread looks. Expected: it looks between the two, and the assertion
 * fails. */
#define THREADS 5
#include "../reorder.h"
