/* Each of two threads creates a file unless it exists. Expected: the assertion fails when both find that it does not,
 * and one of them then finds the other's. */
#include <assert.h>
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

static const char *path = "/tmp/unsnarl_access_then_create";

static void *create(void *unused)
{
    if (access(path, F_OK) != 0) {
        int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
        assert(fd >= 0); /* FAIL */
        close(fd);
    }
    return unused;
}

int main(void)
{
    pthread_t threads[2];
    unlink(path);
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, create, NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    unlink(path);
    return 0;
}
