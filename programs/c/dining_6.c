/* Six philosophers, six forks. Expected: deadlock when each holds the fork to the left. */
#define SEATS 6
#include "../dining.h"
