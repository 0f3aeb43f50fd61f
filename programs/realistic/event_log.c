/* A log with two buffers: writers append to one, while a flusher writes out the other. The error: a writer reserves its
   place under the lock, but fills it after that, when the buffer may already have been flushed. */
#include <assert.h>
#include <pthread.h>
#include <stdio.h>

#define WRITERS 3
#define MESSAGES 3
#define PLACES 16

struct message {
    int writer;
    int number;
    int complete;
};

struct log_buffer {
    struct message messages[PLACES];
    int length;
};

struct event_log {
    pthread_mutex_t mutex;
    struct log_buffer buffers[2];
    int active;
    int written;
    int stopping;
};

static struct event_log event_log = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static struct log_buffer *active_buffer(struct event_log *log)
{
    return &log->buffers[log->active];
}

static struct message *reserve(struct event_log *log)
{
    struct message *place = NULL;
    pthread_mutex_lock(&log->mutex);
    struct log_buffer *buffer = active_buffer(log);
    if (buffer->length < PLACES)
        place = &buffer->messages[buffer->length++];
    pthread_mutex_unlock(&log->mutex);
    return place;
}

static void fill(struct message *message, int writer, int number)
{
    message->writer = writer;
    message->number = number;
    message->complete = 1;
}

static int append(struct event_log *log, int writer, int number)
{
    struct message *message = reserve(log);
    if (!message)
        return 0;
    fill(message, writer, number);
    return 1;
}

static struct log_buffer *swap_buffers(struct event_log *log)
{
    pthread_mutex_lock(&log->mutex);
    struct log_buffer *full = active_buffer(log);
    log->active = !log->active;
    pthread_mutex_unlock(&log->mutex);
    return full;
}

static void write_out(struct event_log *log, const struct message *message)
{
    assert(message->complete);
    log->written++;
}

static void flush(struct event_log *log)
{
    struct log_buffer *full = swap_buffers(log);
    for (int i = 0; i < full->length; i++) {
        write_out(log, &full->messages[i]);
        full->messages[i].complete = 0;
    }
    full->length = 0;
}

static int is_stopping(struct event_log *log)
{
    pthread_mutex_lock(&log->mutex);
    int stopping = log->stopping;
    pthread_mutex_unlock(&log->mutex);
    return stopping;
}

static void stop(struct event_log *log)
{
    pthread_mutex_lock(&log->mutex);
    log->stopping = 1;
    pthread_mutex_unlock(&log->mutex);
}

static void *writer(void *argument)
{
    int own = (int)(size_t)argument;
    for (int i = 0; i < MESSAGES; i++)
        append(&event_log, own, i);
    return NULL;
}

static void *flusher(void *unused)
{
    for (int i = 0; i < 4 && !is_stopping(&event_log); i++)
        flush(&event_log);
    return unused;
}

int main(void)
{
    pthread_t writers[WRITERS], background;
    pthread_create(&background, NULL, flusher, NULL);
    for (size_t i = 0; i < WRITERS; i++)
        pthread_create(&writers[i], NULL, writer, (void *)i);
    for (int i = 0; i < WRITERS; i++)
        pthread_join(writers[i], NULL);
    stop(&event_log);
    pthread_join(background, NULL);
    flush(&event_log);
    flush(&event_log);
    printf("%d messages\n", event_log.written);
    return 0;
}
