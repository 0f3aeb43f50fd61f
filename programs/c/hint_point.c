/* Two threads increment a counter that nobody instruments; only the program's own schedule point lies between
 * the read and the write. Expected: it is enough for the update to be lost. */
#include <assert.h>
#include <pthread.h>
#include <unsnarl.h>

static int counter;

static void *increment(void *unused)
{
    int before = counter;
    UNSNARL_POINT("between read and write");
    counter = before + 1;
    return unused;
}

int main(void)
{
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, increment, NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    assert(counter == 2); /* FAIL */
    return 0;
}
