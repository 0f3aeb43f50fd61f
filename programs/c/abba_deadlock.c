/* Two threads take the same two mutexes in opposite order. Expected: deadlock when each holds its first. */
#include <pthread.h>

static pthread_mutex_t a = PTHREAD_MUTEX_INITIALIZER, b = PTHREAD_MUTEX_INITIALIZER;

static void *a_then_b(void *unused)
{
    pthread_mutex_lock(&a);
    pthread_mutex_lock(&b);
    pthread_mutex_unlock(&b);
    pthread_mutex_unlock(&a);
    return unused;
}

static void *b_then_a(void *unused)
{
    pthread_mutex_lock(&b);
    pthread_mutex_lock(&a);
    pthread_mutex_unlock(&a);
    pthread_mutex_unlock(&b);
    return unused;
}

int main(void)
{
    pthread_t one, other;
    pthread_create(&one, NULL, a_then_b, NULL);
    pthread_create(&other, NULL, b_then_a, NULL);
    pthread_join(one, NULL);
    pthread_join(other, NULL);
    return 0;
}
