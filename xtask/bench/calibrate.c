/* calibrate OUT: ticks in a nanosecond. Never run under control. */
#include "ticks.h"
#include <time.h>

static double now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1e9 + t.tv_nsec;
}

int main(int argc, char **argv) {
  if (argc != 2) return 2;
  double ns = now_ns();
  unsigned long long start = ticks();
  while (now_ns() - ns < 1e8) {
  }
  double elapsed = ticks() - start;
  report(argv[1], elapsed / (now_ns() - ns));
  return 0;
}
