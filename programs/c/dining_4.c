/* Four philosophers, four forks. Expected: deadlock when each holds the fork to the left. */
#define SEATS 4
#include "../dining.h"
