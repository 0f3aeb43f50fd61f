/* Main removes a file, and a thread creates it again. The thread must find it removed in every schedule, and main must
 * find what the thread wrote. */
#include <assert.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char *path = "/tmp/unsnarl_recreated";

static void *create(void *unused)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    assert(fd >= 0);
    assert(write(fd, "text", 4) == 4);
    close(fd);
    return unused;
}

static void *look(void *unused)
{
    access(path, F_OK);
    return unused;
}

int main(void)
{
    pthread_t creator, other;
    char text[8] = "";
    int fd = open(path, O_WRONLY | O_CREAT, 0600);
    close(fd);
    unlink(path);
    pthread_create(&creator, NULL, create, NULL);
    pthread_create(&other, NULL, look, NULL);
    pthread_join(creator, NULL);
    pthread_join(other, NULL);
    fd = open(path, O_RDONLY);
    assert(fd >= 0 && read(fd, text, sizeof text) == 4 && strcmp(text, "text") == 0);
    close(fd);
    assert(rename(path, "/tmp/unsnarl_recreated_2") == 0 && access(path, F_OK) != 0);
    assert(unlink("/tmp/unsnarl_recreated_2") == 0);
    return 0;
}
