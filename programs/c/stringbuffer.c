/* To append a buffer asks for its length, then copies as many characters, each under the lock of that
 * buffer. Expected: the assertion fails when the buffer is cleared in between. */
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

static size_t length_of(struct buffer *buffer)
{
    pthread_mutex_lock(&buffer->mutex);
    size_t length = buffer->length;
    pthread_mutex_unlock(&buffer->mutex);
    return length;
}

static void copy(char *to, struct buffer *from, size_t length)
{
    pthread_mutex_lock(&from->mutex);
    assert(length <= from->length); /* FAIL */
    memcpy(to, from->text, length);
    pthread_mutex_unlock(&from->mutex);
}

static void append(struct buffer *to, struct buffer *from)
{
    pthread_mutex_lock(&to->mutex);
    size_t length = length_of(from);
    copy(to->text + to->length, from, length);
    to->length += length;
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
    return 0;
}
