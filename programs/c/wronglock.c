/* Two threads count the same visits, each under a lock of its own. Expected: the assertion fails when one
 * counts while the other does. */
#include <assert.h>
#include <pthread.h>

static pthread_mutex_t front_door = PTHREAD_MUTEX_INITIALIZER, back_door = PTHREAD_MUTEX_INITIALIZER;
static int visits;

static void *count(void *door)
{
    pthread_mutex_lock(door);
    visits++;
    pthread_mutex_unlock(door);
    return NULL;
}

int main(void)
{
    pthread_t front, back;
    pthread_create(&front, NULL, count, &front_door);
    pthread_create(&back, NULL, count, &back_door);
    pthread_join(front, NULL);
    pthread_join(back, NULL);
    assert(visits == 2); /* FAIL */
    return 0;
}
