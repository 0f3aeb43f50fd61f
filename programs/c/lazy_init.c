/* Settings are made on first use, with a look before the lock and another under it, but the pointer is
 * there before what it points to is filled in. Expected: a thread that needs no lock any more reads
 * settings that are none, and the assertion fails. */
#include <assert.h>
#include <pthread.h>
#include <stdlib.h>

struct settings {
    int width, height;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct settings *settings;

static void make_settings(void)
{
    pthread_mutex_lock(&mutex);
    if (!settings) {
        settings = calloc(1, sizeof *settings);
        settings->width = 80;
        settings->height = 24;
    }
    pthread_mutex_unlock(&mutex);
}

static void *use(void *unused)
{
    if (!settings)
        make_settings();
    assert(settings->width * settings->height == 1920); /* FAIL */
    return unused;
}

int main(void)
{
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, use, NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    free(settings);
    return 0;
}
