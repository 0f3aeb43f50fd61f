/* Two philosophers, two forks. Expected: deadlock when each holds the fork to the left. */
#define SEATS 2
#include "../dining.h"
