/* Two threads each lock their own mutex and try to lock the other's. If that fails, they politely let go and start
 * again. Expected: livelock if each always gets its own and fails at the other's. */
#include <pthread.h>
#include <sched.h>

static pthread_mutex_t forks[2] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};
static int meals;

static void *dine(void *own)
{
    pthread_mutex_t *mine = own, *other = mine == &forks[0] ? &forks[1] : &forks[0];
    for (;;) {
        pthread_mutex_lock(mine);
        sched_yield();
        if (pthread_mutex_trylock(other) == 0)
            break;
        pthread_mutex_unlock(mine);
    }
    meals++;
    pthread_mutex_unlock(other);
    pthread_mutex_unlock(mine);
    return NULL;
}

int main(void)
{
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, dine, &forks[i]);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    return meals != 2;
}
