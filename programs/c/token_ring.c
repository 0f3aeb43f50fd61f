/* A token passes through a ring of stations. The first station numbers it, each other one copies the number of its
 * predecessor, each under the lock, but in any order. Expected: the assertion fails if a station runs before its
 * predecessor. */
#include <assert.h>
#include <pthread.h>

enum { STATIONS = 4 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int tokens[STATIONS];

static void *pass_on(void *own_token)
{
    int *own = own_token;
    pthread_mutex_lock(&mutex);
    *own = own == tokens ? tokens[STATIONS - 1] + 1 : own[-1];
    pthread_mutex_unlock(&mutex);
    return NULL;
}

int main(void)
{
    pthread_t stations[STATIONS];
    for (int i = 0; i < STATIONS; i++)
        pthread_create(&stations[i], NULL, pass_on, &tokens[i]);
    for (int i = 0; i < STATIONS; i++)
        pthread_join(stations[i], NULL);
    for (int i = 1; i < STATIONS; i++)
        assert(tokens[i] == tokens[0]); /* FAIL */
    return 0;
}
