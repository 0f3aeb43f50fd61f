/* To append a buffer asks for its length and copies under one hold of that buffer's lock. Expected: all of
 * it is appended, or nothing. */
#include <assert.h>
#include <pthread.h>
#include <string.h>

struct buffer {
    pthread_mutex_t mutex;
    size_t length;
    char text[16];
};

static struct buffer greeting = { PTHREAD_MUTEX_INITIALIZER, 6, "hello " };
static struct buffer name = { PTHREAD_MUTEX_INITIALIZER, 5, "world" };

static void append(struct buffer *to, struct buffer *from)
{
    pthread_mutex_lock(&to->mutex);
    pthread_mutex_lock(&from->mutex);
    memcpy(to->text + to->length, from->text, from->length);
    to->length += from->length;
    pthread_mutex_unlock(&from->mutex);
    pthread_mutex_unlock(&to->mutex);
}

static void *clear(void *argument)
{
    struct buffer *buffer = argument;
    pthread_mutex_lock(&buffer->mutex);
    buffer->length = 0;
    pthread_mutex_unlock(&buffer->mutex);
    return NULL;
}

int main(void)
{
    pthread_t clearer;
    pthread_create(&clearer, NULL, clear, &name);
    append(&greeting, &name);
    pthread_join(clearer, NULL);
    assert(greeting.length == 6 || greeting.length == 11);
    return 0;
}
