/* Three threads, a mutex and a condition variable, without a bug: like a small test. */
#include <pthread.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t all_there = PTHREAD_COND_INITIALIZER;
static int arrived, sum;

static void *work(void *argument) {
  for (int i = 0; i < 5; i++) {
    pthread_mutex_lock(&mutex);
    sum += *(int *)argument;
    pthread_mutex_unlock(&mutex);
  }
  pthread_mutex_lock(&mutex);
  if (++arrived == 3) pthread_cond_broadcast(&all_there);
  while (arrived < 3) pthread_cond_wait(&all_there, &mutex);
  pthread_mutex_unlock(&mutex);
  return NULL;
}

int main(void) {
  int amounts[] = {1, 10};
  int own = 100;
  pthread_t threads[2];
  for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, work, &amounts[i]);
  work(&own);
  for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
  return sum == 555 ? 0 : 1;
}
