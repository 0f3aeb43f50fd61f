/* A configuration that can be loaded again while others read it. The error: a reader takes the pointer and then counts
   itself; in between, a reload may see no readers and retire the configuration. */
#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define READERS 2
#define READS 3
#define RELOADS 2
#define SETTINGS 3

struct configuration {
    atomic_int readers;
    int retired;
    int version;
    int settings[SETTINGS];
};

static _Atomic(struct configuration *) current;
static struct configuration *retired[RELOADS + 1];
static int number_retired;

static struct configuration *parse(int version)
{
    struct configuration *configuration = calloc(1, sizeof *configuration);
    configuration->version = version;
    for (int i = 0; i < SETTINGS; i++)
        configuration->settings[i] = 100 * version + i;
    return configuration;
}

static struct configuration *enter(void)
{
    struct configuration *configuration = atomic_load(&current);
    atomic_fetch_add(&configuration->readers, 1);
    return configuration;
}

static void leave(struct configuration *configuration)
{
    atomic_fetch_sub(&configuration->readers, 1);
}

static int setting(const struct configuration *configuration, int which)
{
    assert(!configuration->retired);
    return configuration->settings[which];
}

static int is_read(struct configuration *configuration)
{
    return atomic_load(&configuration->readers) > 0;
}

static void retire(struct configuration *configuration)
{
    configuration->retired = 1;
    for (int i = 0; i < SETTINGS; i++)
        configuration->settings[i] = -1;
    retired[number_retired++] = configuration;
}

static void reload(int version)
{
    struct configuration *new = parse(version);
    struct configuration *old = atomic_exchange(&current, new);
    if (!is_read(old))
        retire(old);
    else
        retired[number_retired++] = old;
}

static void *reader(void *argument)
{
    size_t own = (size_t)argument;
    long sum = 0;
    for (int i = 0; i < READS; i++) {
        struct configuration *configuration = enter();
        for (int j = 0; j < SETTINGS; j++)
            sum += setting(configuration, (j + (int)own) % SETTINGS);
        leave(configuration);
    }
    return (void *)sum;
}

static void *loader(void *unused)
{
    for (int i = 1; i <= RELOADS; i++)
        reload(i);
    return unused;
}

static void free_all(void)
{
    for (int i = 0; i < number_retired; i++)
        free(retired[i]);
    free(atomic_load(&current));
}

int main(void)
{
    pthread_t readers[READERS], reloading;
    atomic_store(&current, parse(0));
    for (size_t i = 0; i < READERS; i++)
        pthread_create(&readers[i], NULL, reader, (void *)i);
    pthread_create(&reloading, NULL, loader, NULL);
    for (int i = 0; i < READERS; i++)
        pthread_join(readers[i], NULL);
    pthread_join(reloading, NULL);
    printf("version %d\n", atomic_load(&current)->version);
    free_all();
    return 0;
}
