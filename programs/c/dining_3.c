/* Three philosophers, three forks. Expected: deadlock when each holds the fork to the left. */
#define SEATS 3
#include "../dining.h"
