/* Ninety-nine threads write two stages, one reads them. Expected: the assertion fails when it reads after
 * the first write of the first stage and before the first write of the second: in very few schedules. */
#define THREADS 100
#include "../twostage.h"
