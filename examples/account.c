/* Two deposits into one account, and no lock. Once in a while a deposit is lost. */
#include <assert.h>
#include <pthread.h>
#include <stdio.h>

static int balance = 100;

static void *deposit(void *argument) {
  int amount = *(int *)argument;
  int before = balance;
  balance = before + amount;
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
