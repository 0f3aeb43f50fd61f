/* Random numbers read from the devices, by descriptor and by stream. Expected: the same ones in a replay, which therefore takes the
 * same branches. */
#include "../support.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void lock_times(unsigned char times)
{
    for (int i = 0; i < times % 8; i++) {
        pthread_mutex_lock(&mutex);
        pthread_mutex_unlock(&mutex);
    }
}

static void *draw(void *path)
{
    unsigned char bytes[2];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    CHECK(fd >= 0);
    CHECK(read(fd, bytes, 2) == 2);
    CHECK(close(fd) == 0);
    lock_times(bytes[0]);
    FILE *file = fopen(path, "rb");
    CHECK(file != NULL);
    CHECK(fread(bytes, 1, 2, file) == 2);
    CHECK(fclose(file) == 0);
    lock_times(bytes[1]);
    return NULL;
}

int main(void)
{
    pthread_t threads[2];
    CHECK(pthread_create(&threads[0], NULL, draw, "/dev/urandom") == 0);
    CHECK(pthread_create(&threads[1], NULL, draw, "/dev/random") == 0);
    for (int i = 0; i < 2; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
}
