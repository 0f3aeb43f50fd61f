/* A table of symbols: many look up, few intern. The error: `intern` looks with the read lock, and inserts with the write
   lock without looking again, so that a symbol gets two numbers. */
#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BUCKETS 8
#define COMPILERS 3
#define NAMES 4

struct symbol {
    const char *name;
    int number;
    struct symbol *next;
};

struct table {
    pthread_rwlock_t lock;
    struct symbol *buckets[BUCKETS];
    int size;
};

static struct table symbols = {.lock = PTHREAD_RWLOCK_INITIALIZER};
static const char *const names[NAMES] = {"main", "printf", "argc", "argv"};
static int numbers[COMPILERS][NAMES];

static unsigned hash(const char *name)
{
    unsigned value = 5381;
    while (*name)
        value = value * 33 + (unsigned char)*name++;
    return value;
}

static struct symbol **bucket_of(struct table *table, const char *name)
{
    return &table->buckets[hash(name) % BUCKETS];
}

static struct symbol *find(struct table *table, const char *name)
{
    struct symbol *symbol = *bucket_of(table, name);
    while (symbol && strcmp(symbol->name, name) != 0)
        symbol = symbol->next;
    return symbol;
}

static struct symbol *look_up(struct table *table, const char *name)
{
    pthread_rwlock_rdlock(&table->lock);
    struct symbol *symbol = find(table, name);
    pthread_rwlock_unlock(&table->lock);
    return symbol;
}

static struct symbol *insert(struct table *table, const char *name)
{
    struct symbol *symbol = malloc(sizeof *symbol);
    struct symbol **bucket = bucket_of(table, name);
    symbol->name = name;
    pthread_rwlock_wrlock(&table->lock);
    symbol->number = table->size++;
    symbol->next = *bucket;
    *bucket = symbol;
    pthread_rwlock_unlock(&table->lock);
    return symbol;
}

static int intern(struct table *table, const char *name)
{
    struct symbol *symbol = look_up(table, name);
    if (!symbol)
        symbol = insert(table, name);
    return symbol->number;
}

static void *compiler(void *argument)
{
    size_t own = (size_t)argument;
    for (int i = 0; i < NAMES; i++) {
        int which = (int)(i + own) % NAMES;
        numbers[own][which] = intern(&symbols, names[which]);
    }
    return NULL;
}

static int agree(int name)
{
    for (int i = 1; i < COMPILERS; i++)
        if (numbers[i][name] != numbers[0][name])
            return 0;
    return 1;
}

static void free_table(struct table *table)
{
    for (int i = 0; i < BUCKETS; i++) {
        struct symbol *symbol = table->buckets[i];
        while (symbol) {
            struct symbol *next = symbol->next;
            free(symbol);
            symbol = next;
        }
    }
}

int main(void)
{
    pthread_t compilers[COMPILERS];
    for (size_t i = 0; i < COMPILERS; i++)
        pthread_create(&compilers[i], NULL, compiler, (void *)i);
    for (int i = 0; i < COMPILERS; i++)
        pthread_join(compilers[i], NULL);
    for (int i = 0; i < NAMES; i++)
        assert(agree(i));
    printf("%d symbols\n", symbols.size);
    free_table(&symbols);
    return 0;
}
