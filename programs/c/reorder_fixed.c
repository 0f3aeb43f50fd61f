/* Three threads set a, then b, and one looks, all of them under the lock. Expected: it finds both set or
 * neither. */
#include <assert.h>
#include <pthread.h>

enum { THREADS = 4 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int a, b;

static void *set(void *unused)
{
    pthread_mutex_lock(&mutex);
    a = 1;
    b = -1;
    pthread_mutex_unlock(&mutex);
    return unused;
}

static void *check(void *unused)
{
    pthread_mutex_lock(&mutex);
    assert((a == 0 && b == 0) || (a == 1 && b == -1));
    pthread_mutex_unlock(&mutex);
    return unused;
}

int main(void)
{
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, i < THREADS - 1 ? set : check, NULL);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
