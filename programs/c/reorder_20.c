/* Nineteen threads set a, then b; one thread looks. Expected: it looks between the two, and the assertion
 * fails, in few schedules: by the time the one that looks is there, some other has set both. */
#define THREADS 20
#include "../reorder.h"
