/* yield OUT N: two threads yield to each other N times each; ticks per yield.
   Under a fair scheduler every sched_yield is a switch. */
#include "ticks.h"
#include <pthread.h>
#include <sched.h>

static long rounds;

static void *partner(void *unused) {
  for (long i = 0; i < rounds; i++) sched_yield();
  return unused;
}

int main(int argc, char **argv) {
  if (argc != 3) return 2;
  rounds = atol(argv[2]);
  pthread_t thread;
  pthread_create(&thread, NULL, partner, NULL);
  sched_yield();
  unsigned long long start = ticks();
  partner(NULL);
  double elapsed = ticks() - start;
  pthread_join(thread, NULL);
  report(argv[1], elapsed / (2.0 * rounds));
  return 0;
}
