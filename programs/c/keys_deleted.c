/* Destructors of deleted keys are not called, those of living keys in the order of the keys, also if one of
 * them deletes its own, and again while they set new values. Expected: the calls below. */
#include "../support.h"

#include <pthread.h>
#include <threads.h>

static pthread_key_t again, deleted, last;
static tss_t c11;

static void destroy_again(void *value)
{
    printf("again %ld\n", (long)value);
    pthread_setspecific(again, (void *)((long)value + 1));
}

static void destroy_deleted(void *value)
{
    printf("deleted %ld\n", (long)value);
    pthread_key_delete(deleted);
}

static void destroy_last(void *value)
{
    printf("last %ld\n", (long)value);
}

static void never(void *unused)
{
    (void)unused;
    abort();
}

static void *worker(void *unused)
{
    pthread_setspecific(last, (void *)30);
    pthread_setspecific(deleted, (void *)20);
    pthread_setspecific(again, (void *)10);
    tss_set(c11, &c11);
    return unused;
}

int main(void)
{
    pthread_t thread;
    CHECK(tss_create(&c11, never) == thrd_success);
    tss_delete(c11);
    CHECK(pthread_key_create(&again, destroy_again) == 0 && again == c11);
    CHECK(pthread_key_create(&deleted, destroy_deleted) == 0);
    CHECK(pthread_key_create(&last, destroy_last) == 0);
    CHECK(tss_create(&c11, NULL) == thrd_success);
    pthread_create(&thread, NULL, worker, NULL);
    pthread_join(thread, NULL);
}
