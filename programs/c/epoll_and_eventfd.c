/* A loop over epoll that a pipe, an event counter and a datagram keep busy. Expected: exit 0. */
#define _GNU_SOURCE
#include "../support.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

static int data[2], stop;

static void *writer(void *unused)
{
    for (char i = 0; i < 3; i++)
        CHECK(write(data[1], &i, 1) == 1);
    return unused;
}

static void *stopper(void *thread)
{
    pthread_join(*(pthread_t *)thread, NULL);
    CHECK(eventfd_write(stop, 2) == 0);
    return NULL;
}

static void add(int set, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    CHECK(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) == 0);
}

int main(void)
{
    pthread_t threads[2];
    int set = epoll_create1(EPOLL_CLOEXEC), sum = 0, done = 0;
    CHECK(pipe2(data, O_NONBLOCK) == 0 && (stop = eventfd(0, EFD_SEMAPHORE)) >= 0);
    add(set, data[0]);
    add(set, stop);
    CHECK(epoll_wait(set, &(struct epoll_event){0}, 1, 0) == 0);
    pthread_create(&threads[0], NULL, writer, NULL);
    pthread_create(&threads[1], NULL, stopper, &threads[0]);
    while (done < 2) {
        struct epoll_event events[4];
        int count = epoll_wait(set, events, 4, -1);
        CHECK(count > 0);
        for (int i = 0; i < count; i++) {
            char byte;
            eventfd_t value;
            if (events[i].data.fd == stop) {
                CHECK(eventfd_read(stop, &value) == 0 && value == 1);
                done++;
            } else {
                while (read(data[0], &byte, 1) == 1)
                    sum += byte;
                CHECK(errno == EAGAIN);
            }
        }
    }
    CHECK(sum == 3);
    pthread_join(threads[1], NULL);
}
