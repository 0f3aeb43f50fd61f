/* Each withdrawal is under the lock, but the check before it is under another hold of the lock. Expected:
 * both pass the check, and the program aborts on the overdrawn account. */
#include <pthread.h>
#include <stdlib.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int balance = 100;

static int get_balance(void)
{
    pthread_mutex_lock(&mutex);
    int current = balance;
    pthread_mutex_unlock(&mutex);
    return current;
}

static void *withdraw(void *unused)
{
    if (get_balance() >= 80) {
        pthread_mutex_lock(&mutex);
        balance -= 80;
        pthread_mutex_unlock(&mutex);
    }
    return unused;
}

int main(void)
{
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, withdraw, NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    if (get_balance() < 0)
        abort(); /* FAIL */
    return 0;
}
