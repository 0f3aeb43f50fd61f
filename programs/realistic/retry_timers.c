/* Timers for requests that are sent again unless an answer arrives. The error: `cancel` looks whether the timer is armed
   without the lock of the list, and the timer thread may be about to fire it: the request is freed, and then sent again. */
#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#define REQUESTS 4
#define TICKS 6

enum state { IDLE, ARMED, FIRING, CANCELLED };

struct request {
    int number;
    int sent;
    int released;
};

struct timer {
    enum state state;
    int due;
    struct request *request;
};

struct wheel {
    pthread_mutex_t mutex;
    struct timer timers[REQUESTS];
    int now;
};

static struct wheel wheel = {.mutex = PTHREAD_MUTEX_INITIALIZER};
static struct request requests[REQUESTS];
static atomic_int finished;

static int is_armed(const struct timer *timer)
{
    return timer->state == ARMED;
}

static int is_due(const struct timer *timer, int now)
{
    return is_armed(timer) && timer->due <= now;
}

static void transmit(struct request *request)
{
    assert(!request->released);
    request->sent++;
}

static void arm(struct timer *timer, struct request *request, int delay)
{
    pthread_mutex_lock(&wheel.mutex);
    timer->request = request;
    timer->due = wheel.now + delay;
    timer->state = ARMED;
    pthread_mutex_unlock(&wheel.mutex);
}

static void cancel(struct timer *timer)
{
    if (!is_armed(timer))
        return;
    pthread_mutex_lock(&wheel.mutex);
    timer->state = CANCELLED;
    pthread_mutex_unlock(&wheel.mutex);
}

static struct timer *next_due(struct wheel *wheel)
{
    struct timer *due = NULL;
    pthread_mutex_lock(&wheel->mutex);
    for (int i = 0; i < REQUESTS && !due; i++)
        if (is_due(&wheel->timers[i], wheel->now))
            due = &wheel->timers[i];
    if (due)
        due->state = FIRING;
    pthread_mutex_unlock(&wheel->mutex);
    return due;
}

static void fire(struct timer *timer)
{
    transmit(timer->request);
    pthread_mutex_lock(&wheel.mutex);
    timer->state = IDLE;
    pthread_mutex_unlock(&wheel.mutex);
}

static void advance(struct wheel *wheel)
{
    pthread_mutex_lock(&wheel->mutex);
    wheel->now++;
    pthread_mutex_unlock(&wheel->mutex);
}

static void *tick(void *unused)
{
    for (int i = 0; i < TICKS && !atomic_load(&finished); i++) {
        struct timer *timer;
        advance(&wheel);
        while ((timer = next_due(&wheel)) != NULL)
            fire(timer);
    }
    return unused;
}

static void release(struct request *request)
{
    request->released = 1;
}

static void *client(void *unused)
{
    for (int i = 0; i < REQUESTS; i++) {
        struct request *request = &requests[i];
        request->number = i;
        transmit(request);
        arm(&wheel.timers[i], request, 1 + i % 2);
        /* The answer arrives. */
        cancel(&wheel.timers[i]);
        release(request);
    }
    atomic_store(&finished, 1);
    return unused;
}

int main(void)
{
    pthread_t ticker, sender;
    pthread_create(&ticker, NULL, tick, NULL);
    pthread_create(&sender, NULL, client, NULL);
    pthread_join(sender, NULL);
    pthread_join(ticker, NULL);
    printf("%d requests\n", REQUESTS);
    return 0;
}
