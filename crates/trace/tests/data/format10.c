/* Yields for ever. */
#include <sched.h>
int main(void) {
  for (;;) sched_yield();
}
