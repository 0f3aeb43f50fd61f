/* An order is sent again if no receipt comes within 200 ms, though the first one may still be on its way. Expected: the
 * assertion fails if that happened, because it is paid twice. */
#include <assert.h>
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

static int orders[2], receipts[2];
static int paid;

static void *shop(void *unused)
{
    char order;
    while (read(orders[0], &order, 1) == 1) {
        paid++;
        if (write(receipts[1], &order, 1) != 1)
            break;
    }
    return unused;
}

int main(void)
{
    pthread_t thread;
    char receipt;
    if (pipe(orders) || pipe(receipts))
        return 1;
    pthread_create(&thread, NULL, shop, NULL);
    struct pollfd reply = {.fd = receipts[0], .events = POLLIN};
    do {
        if (write(orders[1], "x", 1) != 1)
            return 1;
    } while (poll(&reply, 1, 200) == 0);
    if (read(receipts[0], &receipt, 1) != 1)
        return 1;
    close(orders[1]);
    pthread_join(thread, NULL);
    assert(paid == 1); /* FAIL */
}
