/* The same two deposits, each under a lock. */
#include <assert.h>
#include <pthread.h>
#include <stdio.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int balance = 100;

static void *deposit(void *argument) {
  int amount = *(int *)argument;
  pthread_mutex_lock(&lock);
  int before = balance;
  balance = before + amount;
  pthread_mutex_unlock(&lock);
  return NULL;
}

int main(void) {
  int ten = 10, twenty = 20;
  pthread_t first, second;
  pthread_create(&first, NULL, deposit, &ten);
  pthread_create(&second, NULL, deposit, &twenty);
  pthread_join(first, NULL);
  pthread_join(second, NULL);
  printf("the balance is %d\n", balance);
  assert(balance == 130);
  return 0;
}
