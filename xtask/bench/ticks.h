/* Time that cannot be virtualised: the processor's counter. */
#include <stdio.h>
#include <stdlib.h>
#include <x86intrin.h>

static inline unsigned long long ticks(void) {
  _mm_lfence();
  unsigned long long now = __rdtsc();
  _mm_lfence();
  return now;
}

/* Written to a file, because a controlled program's output goes to its trace. */
static inline void report(const char *path, double value) {
  FILE *file = fopen(path, "w");
  if (!file || fprintf(file, "%.3f\n", value) < 0 || fclose(file) != 0) {
    perror(path);
    exit(1);
  }
}
