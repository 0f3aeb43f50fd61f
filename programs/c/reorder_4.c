/* Three threads set a, then b; one thread looks. Expected: it looks between the two, and the assertion
 * fails. */
#define THREADS 4
#include "../reorder.h"
