/* Workers scan a tree of directories and add up its sizes; main waits until none is unscanned. A directory
 * is counted as scanned when it is taken, not when what is in it has been added. Expected: the assertion
 * fails when main looks in between. */
#include <assert.h>
#include <pthread.h>

enum { WORKERS = 2 };

static const struct directory {
    int size;
    const struct directory *inside[2];
} pictures = { 16, { 0 } }, music = { 8, { 0 } }, mail = { 4, { 0 } }, home = { 2, { &pictures, &music } },
  root = { 1, { &home, &mail } };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static const struct directory *found[5] = { &root };
static int waiting = 1, unscanned = 1, total;

static const struct directory *next(void)
{
    const struct directory *directory = NULL;
    pthread_mutex_lock(&mutex);
    while (waiting == 0 && unscanned > 0)
        pthread_cond_wait(&changed, &mutex);
    if (waiting > 0) {
        directory = found[--waiting];
        unscanned--;
    }
    pthread_mutex_unlock(&mutex);
    return directory;
}

static void scan(const struct directory *directory)
{
    pthread_mutex_lock(&mutex);
    total += directory->size;
    for (int i = 0; i < 2 && directory->inside[i]; i++) {
        found[waiting++] = directory->inside[i];
        unscanned++;
    }
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mutex);
}

static void *work(void *unused)
{
    for (const struct directory *directory = next(); directory; directory = next())
        scan(directory);
    return unused;
}

int main(void)
{
    pthread_t workers[WORKERS];
    for (int i = 0; i < WORKERS; i++)
        pthread_create(&workers[i], NULL, work, NULL);
    pthread_mutex_lock(&mutex);
    while (unscanned > 0)
        pthread_cond_wait(&changed, &mutex);
    assert(total == 31); /* FAIL */
    pthread_mutex_unlock(&mutex);
    for (int i = 0; i < WORKERS; i++)
        pthread_join(workers[i], NULL);
    return 0;
}
