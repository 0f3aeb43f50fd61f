/* kernels OUT matrix|sort|hash TIMES: the kernel TIMES times over, in a thread while another waits;
   ticks of the fastest. */
#include "ticks.h"
#include <pthread.h>
#include <string.h>

enum { SIDE = 64, ITEMS = 4096, SLOTS = 2048 };

static double left[SIDE][SIDE], right[SIDE][SIDE], product[SIDE][SIDE];
static unsigned items[ITEMS];
static unsigned keys[SLOTS], values[SLOTS];

static unsigned next_random(unsigned *state) { return *state = *state * 1664525u + 1013904223u; }

static void matrix(void) {
  for (int i = 0; i < SIDE; i++)
    for (int j = 0; j < SIDE; j++) {
      double sum = 0;
      for (int k = 0; k < SIDE; k++) sum += left[i][k] * right[k][j];
      product[i][j] = sum;
    }
}

static void quicksort(unsigned *from, unsigned *to) {
  while (to - from > 1) {
    unsigned pivot = from[(to - from) / 2], *low = from, *high = to - 1;
    while (low <= high) {
      while (*low < pivot) low++;
      while (*high > pivot) high--;
      if (low <= high) {
        unsigned swap = *low;
        *low++ = *high;
        *high-- = swap;
      }
    }
    quicksort(from, high + 1);
    from = low;
  }
}

static void sort(void) {
  unsigned state = 1;
  for (int i = 0; i < ITEMS; i++) items[i] = next_random(&state);
  quicksort(items, items + ITEMS);
}

static void hash(void) {
  memset(keys, 0, sizeof keys);
  unsigned state = 1;
  for (int i = 0; i < ITEMS * 4; i++) {
    unsigned key = (next_random(&state) >> 8) % (SLOTS / 2) + 1, slot = key * 2654435761u % SLOTS;
    while (keys[slot] && keys[slot] != key) slot = (slot + 1) % SLOTS;
    keys[slot] = key;
    values[slot]++;
  }
}

static void (*kernel)(void);
static int times;
static double fastest = 1e18;

static void *measure(void *unused) {
  for (int i = 0; i < times; i++) {
    unsigned long long start = ticks();
    kernel();
    double elapsed = ticks() - start;
    if (elapsed < fastest) fastest = elapsed;
  }
  return unused;
}

int main(int argc, char **argv) {
  if (argc != 4) return 2;
  kernel = !strcmp(argv[2], "matrix") ? matrix : !strcmp(argv[2], "sort") ? sort : hash;
  times = atoi(argv[3]);
  for (int i = 0; i < SIDE; i++)
    for (int j = 0; j < SIDE; j++) left[i][j] = i + j, right[i][j] = i - j;
  pthread_t thread;
  pthread_create(&thread, NULL, measure, NULL);
  pthread_join(thread, NULL);
  report(argv[1], fastest);
  /* Keeps the compiler from removing the work. */
  return product[1][1] + items[1] + values[1] < 0;
}
