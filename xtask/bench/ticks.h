/* Time that nobody can virtualise: the processor's own counter. */
#include <stdio.h>
#include <stdlib.h>
#include <x86intrin.h>

static inline unsigned long long ticks(void) {
  _mm_lfence();
  unsigned long long now = __rdtsc();
  _mm_lfence();
  return now;
}

/* To a file, for a controlled program's output is kept in its trace. */
static inline void report(const char *path, double value) {
  FILE *file = fopen(path, "w");
  if (!file || fprintf(file, "%.3f\n", value) < 0 || fclose(file) != 0) {
    perror(path);
    exit(1);
  }
}
