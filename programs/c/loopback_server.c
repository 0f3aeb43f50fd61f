/* A server thread with poll and a client thread, over TCP on the loopback interface. Expected: exit 0. */
#include "../support.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

static struct sockaddr_in address;

static void *client(void *unused)
{
    char answer[6];
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(connect(fd, (struct sockaddr *)&address, sizeof address) == 0);
    CHECK(send(fd, "hello", 6, MSG_NOSIGNAL) == 6);
    CHECK(recv(fd, answer, 6, MSG_WAITALL) == 6 && answer[0] == 'H');
    CHECK(shutdown(fd, SHUT_WR) == 0);
    CHECK(close(fd) == 0);
    return unused;
}

int main(void)
{
    pthread_t threads[2];
    socklen_t size = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    CHECK(bind(listener, (struct sockaddr *)&address, sizeof address) == 0 && listen(listener, 5) == 0);
    CHECK(getsockname(listener, (struct sockaddr *)&address, &size) == 0);
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, client, NULL);
    for (int i = 0; i < 2; i++) {
        struct pollfd fds = {.fd = listener, .events = POLLIN};
        char word[6];
        CHECK(poll(&fds, 1, -1) == 1 && fds.revents == POLLIN);
        int fd = accept(listener, NULL, NULL);
        CHECK(fd >= 0 && recv(fd, word, 6, MSG_WAITALL) == 6);
        word[0] += 'A' - 'a';
        CHECK(send(fd, word, 6, 0) == 6);
        CHECK(recv(fd, word, 1, 0) == 0 && close(fd) == 0);
    }
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
}
