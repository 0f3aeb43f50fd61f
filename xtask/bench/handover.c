/* handover OUT N: two kernel threads on one processor hand a token to each other N times each, through
   futexes; ticks for each time. What a scheduler over kernel threads must pay for a switch. */
#define _GNU_SOURCE
#include "ticks.h"
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

static long rounds;
static atomic_int turn;

static void *player(void *argument) {
  int mine = argument != NULL, other = !mine;
  for (long i = 0; i < rounds; i++) {
    while (atomic_load(&turn) != mine) syscall(SYS_futex, &turn, FUTEX_WAIT_PRIVATE, other, NULL, NULL, 0);
    atomic_store(&turn, other);
    syscall(SYS_futex, &turn, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
  }
  return NULL;
}

int main(int argc, char **argv) {
  if (argc != 3) return 2;
  rounds = atol(argv[2]);
  /* A hand-over is cheapest on one processor. */
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(sched_getcpu(), &one);
  sched_setaffinity(0, sizeof one, &one);
  pthread_t thread;
  pthread_create(&thread, NULL, player, &rounds);
  unsigned long long start = ticks();
  player(NULL);
  pthread_join(thread, NULL);
  report(argv[1], (ticks() - start) / (2.0 * rounds));
  return 0;
}
