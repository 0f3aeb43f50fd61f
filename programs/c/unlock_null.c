/* A thread unlocks the mutex that another one has already taken out of the shared place. Expected: SIGSEGV inside
 * of pthread_mutex_unlock, called with a null pointer, if the other comes first; and that replays. */
#include <pthread.h>
#include <stddef.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t *current = &mutex;

static void *use(void *unused)
{
    pthread_mutex_lock(&mutex);
    pthread_mutex_unlock(current); /* FAIL */
    return unused;
}

static void *retire(void *unused)
{
    current = NULL;
    return unused;
}

int main(void)
{
    pthread_t user, retirer;
    pthread_create(&user, NULL, use, NULL);
    pthread_create(&retirer, NULL, retire, NULL);
    pthread_join(user, NULL);
    pthread_join(retirer, NULL);
    return 0;
}
