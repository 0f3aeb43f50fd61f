/* Five philosophers, five forks. Expected: deadlock when each holds the fork to the left. */
#define SEATS 5
#include "../dining.h"
