/* The last of two writers decides the exit status. Expected: status 3 when the first-created thread comes
 * last. */
#include <pthread.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int status;

static void *set_status(void *value)
{
    pthread_mutex_lock(&mutex);
    status = *(int *)value;
    pthread_mutex_unlock(&mutex);
    return NULL;
}

int main(void)
{
    pthread_t threads[2];
    int values[2] = { 3, 0 };
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, set_status, &values[i]);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    return status;
}
