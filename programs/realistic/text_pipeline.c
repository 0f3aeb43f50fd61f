/* A pipeline: readers split lines into words, counters count them, and a reporter adds up. The error: the number of live
   readers is decremented without a lock, so that the queue may never be closed, or is closed too early. */
#include <assert.h>
#include <ctype.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define READERS 2
#define COUNTERS 2
#define PLACES 4

struct channel {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    int words[PLACES];
    int length;
    int closed;
};

static const char *const texts[READERS][2] = {
    {"to be or not", "that is"},
    {"the rest", "is silence my lord"},
};
static struct channel words = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, {0}, 0, 0};
static int live_readers = READERS;
static int counted[COUNTERS];

static int is_full(const struct channel *channel)
{
    return channel->length == PLACES;
}

static void send_word(struct channel *channel, int length)
{
    pthread_mutex_lock(&channel->mutex);
    while (is_full(channel))
        pthread_cond_wait(&channel->changed, &channel->mutex);
    channel->words[channel->length++] = length;
    pthread_cond_broadcast(&channel->changed);
    pthread_mutex_unlock(&channel->mutex);
}

static int receive_word(struct channel *channel)
{
    int length = 0;
    pthread_mutex_lock(&channel->mutex);
    while (channel->length == 0 && !channel->closed)
        pthread_cond_wait(&channel->changed, &channel->mutex);
    if (channel->length > 0) {
        length = channel->words[--channel->length];
        pthread_cond_broadcast(&channel->changed);
    }
    pthread_mutex_unlock(&channel->mutex);
    return length;
}

static void close_channel(struct channel *channel)
{
    pthread_mutex_lock(&channel->mutex);
    channel->closed = 1;
    pthread_cond_broadcast(&channel->changed);
    pthread_mutex_unlock(&channel->mutex);
}

static int word_length(const char *text)
{
    int length = 0;
    while (isalpha((unsigned char)text[length]))
        length++;
    return length;
}

static void split(const char *line)
{
    while (*line) {
        int length = word_length(line);
        if (length > 0)
            send_word(&words, length);
        line += length > 0 ? length : 1;
    }
}

static void *reader(void *argument)
{
    size_t own = (size_t)argument;
    for (int i = 0; i < 2; i++)
        split(texts[own][i]);
    if (--live_readers == 0)
        close_channel(&words);
    return NULL;
}

static void *counter(void *argument)
{
    size_t own = (size_t)argument;
    while (receive_word(&words) > 0)
        counted[own]++;
    return NULL;
}

static int total(void)
{
    int sum = 0;
    for (int i = 0; i < COUNTERS; i++)
        sum += counted[i];
    return sum;
}

int main(void)
{
    pthread_t readers[READERS], counters[COUNTERS];
    for (size_t i = 0; i < COUNTERS; i++)
        pthread_create(&counters[i], NULL, counter, (void *)i);
    for (size_t i = 0; i < READERS; i++)
        pthread_create(&readers[i], NULL, reader, (void *)i);
    for (int i = 0; i < READERS; i++)
        pthread_join(readers[i], NULL);
    for (int i = 0; i < COUNTERS; i++)
        pthread_join(counters[i], NULL);
    assert(total() == 12);
    puts("12 words");
    return 0;
}
