/* Settings are created on first use, with a check before the lock and another one under it. The pointer is atomic
 * and is set after all fields. Expected: every thread reads complete settings. */
#include <assert.h>
#include <pthread.h>
#include <stdlib.h>

struct settings {
    int width, height;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct settings *_Atomic settings;

static void make_settings(void)
{
    pthread_mutex_lock(&mutex);
    if (!settings) {
        struct settings *made = calloc(1, sizeof *made);
        made->width = 80;
        made->height = 24;
        settings = made;
    }
    pthread_mutex_unlock(&mutex);
}

static void *use(void *unused)
{
    if (!settings)
        make_settings();
    assert(settings->width * settings->height == 1920);
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
