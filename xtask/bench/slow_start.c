/* Works for a tenth of a second before its threads begin. Some deposits are lost. */
#include <assert.h>
#include <pthread.h>
#include <stdio.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int balance = 100;

static void *deposit(void *unused)
{
    for (int i = 0; i < 5; i++) {
        int current = balance;
        pthread_mutex_lock(&mutex);
        balance = current + 10;
        pthread_mutex_unlock(&mutex);
    }
    return unused;
}

static void prepare(void)
{
    unsigned sum = 1;
    for (unsigned i = 0; i < 60 * 1000 * 1000; i++) {
        sum = sum * 1664525u + i;
        __asm__ volatile("" : "+r"(sum));
    }
    printf("%u\n", sum);
}

int main(void)
{
    pthread_t threads[3];
    prepare();
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, deposit, NULL);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    assert(balance == 250);
    return 0;
}
