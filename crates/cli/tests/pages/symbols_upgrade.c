// A table of symbols looks a name up under the read lock, and adds it under the write lock without looking again.
// pattern: atomicity violation across two critical sections
// line: int count = symbols->count;
#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROOM 8

struct symbols {
    pthread_rwlock_t lock;
    int count;
    const char *names[ROOM];
};

struct unit {
    struct symbols *symbols;
    const char *name;
    int number;
    pthread_t thread;
};

static struct symbols *symbols_new(void) {
    struct symbols *symbols = calloc(1, sizeof *symbols);
    pthread_rwlock_init(&symbols->lock, NULL);
    return symbols;
}

static int symbols_find(struct symbols *symbols, const char *name) {
    pthread_rwlock_rdlock(&symbols->lock);
    int count = symbols->count;
    int found = -1;
    for (int i = 0; i < count; i++)
        if (strcmp(symbols->names[i], name) == 0)
            found = i;
    pthread_rwlock_unlock(&symbols->lock);
    return found;
}

static int symbols_add(struct symbols *symbols, const char *name) {
    pthread_rwlock_wrlock(&symbols->lock);
    int number = symbols->count++;
    symbols->names[number] = name;
    pthread_rwlock_unlock(&symbols->lock);
    return number;
}

static int symbols_intern(struct symbols *symbols, const char *name) {
    int number = symbols_find(symbols, name);
    if (number < 0)
        number = symbols_add(symbols, name);
    return number;
}

static void *compile(void *arg) {
    struct unit *unit = arg;
    unit->number = symbols_intern(unit->symbols, unit->name);
    return NULL;
}

static struct unit *unit_start(struct symbols *symbols, const char *name) {
    struct unit *unit = calloc(1, sizeof *unit);
    unit->symbols = symbols;
    unit->name = name;
    pthread_create(&unit->thread, NULL, compile, unit);
    return unit;
}

int main(void) {
    struct symbols *symbols = symbols_new();
    struct unit *first = unit_start(symbols, "main");
    struct unit *second = unit_start(symbols, "main");
    pthread_join(first->thread, NULL);
    pthread_join(second->thread, NULL);
    assert(symbols->count == 1);
    printf("%d %d\n", first->number, second->number);
    free(first);
    free(second);
    free(symbols);
    return 0;
}
