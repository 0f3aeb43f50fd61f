/* A server thread with poll and two clients, over socket pairs: stream and datagram. Expected: exit 0. */
#define _GNU_SOURCE
#include "../support.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

static int stream[2], datagrams[2];

static void *server(void *unused)
{
    struct pollfd fds[2] = {{.fd = stream[0], .events = POLLIN}, {.fd = datagrams[0], .events = POLLIN}};
    for (int open = 2; open > 0;) {
        CHECK(poll(fds, 2, -1) > 0);
        for (int i = 0; i < 2; i++) {
            char word[16];
            if (!(fds[i].revents & (POLLIN | POLLHUP)))
                continue;
            ssize_t got = recv(fds[i].fd, word, sizeof word, MSG_DONTWAIT);
            CHECK(got >= 0);
            if (got == 0 || word[0] == '.') {
                fds[i].fd = -1;
                open--;
            } else {
                CHECK(send(fds[i].fd, word, got, 0) == got);
            }
        }
    }
    return unused;
}

static void *client(void *arg)
{
    int fd = *(int *)arg;
    char word[4] = "abc", answer[4] = "";
    struct iovec parts[2] = {{word, 2}, {word + 2, 2}};
    fd_set set;
    for (int i = 0; i < 2; i++) {
        CHECK(writev(fd, parts, 2) == 4);
        FD_ZERO(&set);
        FD_SET(fd, &set);
        CHECK(select(fd + 1, &set, NULL, NULL, NULL) == 1 && FD_ISSET(fd, &set));
        CHECK(recv(fd, answer, 4, 0) == 4 && answer[1] == 'b');
    }
    CHECK(recv(fd, answer, 4, MSG_DONTWAIT) == -1 && errno == EAGAIN);
    CHECK(send(fd, ".", 1, 0) == 1);
    return NULL;
}

int main(void)
{
    pthread_t threads[3];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, stream) == 0 && socketpair(AF_UNIX, SOCK_DGRAM, 0, datagrams) == 0);
    pthread_create(&threads[0], NULL, server, NULL);
    pthread_create(&threads[1], NULL, client, &stream[1]);
    pthread_create(&threads[2], NULL, client, &datagrams[1]);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
}
