/* A barrier for three that only two threads ever reach. Expected: deadlock in every schedule. */
#include <pthread.h>

static pthread_barrier_t barrier;

static void *meet(void *unused)
{
    pthread_barrier_wait(&barrier);
    return unused;
}

int main(void)
{
    pthread_t thread;
    pthread_barrier_init(&barrier, NULL, 3);
    pthread_create(&thread, NULL, meet, NULL);
    meet(NULL);
    pthread_join(thread, NULL);
    return 0;
}
