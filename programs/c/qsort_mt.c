/* Quicksort with helpers: who has split a part hands one side to an idle helper, if there is one. Whether
 * a helper is idle is read without its lock. Expected: two threads hand a part to the same helper, one of
 * the parts stays as it was, and the assertion fails. */
#include <assert.h>
#include <pthread.h>
#include <stdbool.h>

enum { ITEMS = 8, HELPERS = 2 };

static int items[ITEMS] = { 5, 2, 7, 3, 8, 1, 6, 4 };

static struct helper {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    enum { IDLE, BUSY, DISMISSED } state;
    int *from, *to;
} helpers[HELPERS];

static struct helper *idle_helper(void)
{
    for (int i = 0; i < HELPERS; i++)
        if (helpers[i].state == IDLE)
            return &helpers[i];
    return NULL;
}

static void hand_over(struct helper *helper, int *from, int *to)
{
    pthread_mutex_lock(&helper->mutex);
    helper->from = from;
    helper->to = to;
    helper->state = BUSY;
    pthread_cond_broadcast(&helper->changed);
    pthread_mutex_unlock(&helper->mutex);
}

static void wait_while(struct helper *helper, int state)
{
    while ((int)helper->state == state)
        pthread_cond_wait(&helper->changed, &helper->mutex);
}

static void swap(int *one, int *other)
{
    int item = *one;
    *one = *other;
    *other = item;
}

/* Smaller items come before the one that is last, which comes between; where it is then. */
static int *split(int *from, int *to)
{
    int *middle = from, *last = to - 1;
    for (int *item = from; item < last; item++)
        if (*item < *last)
            swap(item, middle++);
    swap(middle, last);
    return middle;
}

static void sort(int *from, int *to)
{
    if (to - from < 2)
        return;
    int *middle = split(from, to);
    struct helper *helper = idle_helper();
    if (helper)
        hand_over(helper, from, middle);
    else
        sort(from, middle);
    sort(middle + 1, to);
    if (helper) {
        pthread_mutex_lock(&helper->mutex);
        wait_while(helper, BUSY);
        pthread_mutex_unlock(&helper->mutex);
    }
}

static void *help(void *argument)
{
    struct helper *helper = argument;
    pthread_mutex_lock(&helper->mutex);
    for (wait_while(helper, IDLE); helper->state == BUSY; wait_while(helper, IDLE)) {
        int *from = helper->from, *to = helper->to;
        pthread_mutex_unlock(&helper->mutex);
        sort(from, to);
        pthread_mutex_lock(&helper->mutex);
        helper->state = IDLE;
        pthread_cond_broadcast(&helper->changed);
    }
    pthread_mutex_unlock(&helper->mutex);
    return NULL;
}

int main(void)
{
    pthread_t threads[HELPERS];
    for (int i = 0; i < HELPERS; i++) {
        pthread_mutex_init(&helpers[i].mutex, NULL);
        pthread_cond_init(&helpers[i].changed, NULL);
        pthread_create(&threads[i], NULL, help, &helpers[i]);
    }
    sort(items, items + ITEMS);
    for (int i = 0; i < ITEMS; i++)
        assert(items[i] == i + 1); /* FAIL */
    for (int i = 0; i < HELPERS; i++) {
        pthread_mutex_lock(&helpers[i].mutex);
        helpers[i].state = DISMISSED;
        pthread_cond_broadcast(&helpers[i].changed);
        pthread_mutex_unlock(&helpers[i].mutex);
        pthread_join(threads[i], NULL);
    }
    return 0;
}
