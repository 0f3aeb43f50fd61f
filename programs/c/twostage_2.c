/* One thread writes two stages, one reads them. Expected: the assertion fails when it reads between the
 * two. */
#define THREADS 2
#include "../twostage.h"
