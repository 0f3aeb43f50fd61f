/* A withdrawal reads the balance before it takes the lock. Expected: the assertion fails when a deposit
 * comes between the reading and the writing, and is lost. */
#include <assert.h>
#include <pthread.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int balance = 100;

static void *deposit(void *unused)
{
    pthread_mutex_lock(&mutex);
    balance += 50;
    pthread_mutex_unlock(&mutex);
    return unused;
}

static void *withdraw(void *unused)
{
    int current = balance;
    pthread_mutex_lock(&mutex);
    balance = current - 30;
    pthread_mutex_unlock(&mutex);
    return unused;
}

int main(void)
{
    pthread_t depositor, withdrawer;
    pthread_create(&depositor, NULL, deposit, NULL);
    pthread_create(&withdrawer, NULL, withdraw, NULL);
    pthread_join(depositor, NULL);
    pthread_join(withdrawer, NULL);
    assert(balance == 120); /* FAIL */
    return 0;
}
