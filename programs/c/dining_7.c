/* Seven philosophers, seven forks. Expected: deadlock when each holds the fork to the left. */
#define SEATS 7
#include "../dining.h"
