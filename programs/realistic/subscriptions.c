/* Publishers send to all subscribers of a topic, and subscribers may leave. The error: `publish` copies the number of
   subscribers under the lock, and goes through the array without it, while `unsubscribe` fills the gap. */
#include <assert.h>
#include <pthread.h>
#include <stdio.h>

#define SUBSCRIBERS 4
#define PUBLISHERS 2
#define MESSAGES 3

struct subscriber {
    int active;
    int received;
};

struct topic {
    pthread_mutex_t mutex;
    struct subscriber *subscribers[SUBSCRIBERS];
    int number;
};

static struct topic topic = {.mutex = PTHREAD_MUTEX_INITIALIZER};
static struct subscriber all[SUBSCRIBERS];

static void subscribe(struct topic *topic, struct subscriber *subscriber)
{
    pthread_mutex_lock(&topic->mutex);
    subscriber->active = 1;
    topic->subscribers[topic->number++] = subscriber;
    pthread_mutex_unlock(&topic->mutex);
}

static int position_of(const struct topic *topic, const struct subscriber *subscriber)
{
    for (int i = 0; i < topic->number; i++)
        if (topic->subscribers[i] == subscriber)
            return i;
    return -1;
}

static void unsubscribe(struct topic *topic, struct subscriber *subscriber)
{
    pthread_mutex_lock(&topic->mutex);
    int position = position_of(topic, subscriber);
    if (position >= 0) {
        topic->number--;
        topic->subscribers[position] = topic->subscribers[topic->number];
        topic->subscribers[topic->number] = NULL;
        subscriber->active = 0;
    }
    pthread_mutex_unlock(&topic->mutex);
}

static int number_of_subscribers(struct topic *topic)
{
    pthread_mutex_lock(&topic->mutex);
    int number = topic->number;
    pthread_mutex_unlock(&topic->mutex);
    return number;
}

static void deliver(struct subscriber *subscriber, int message)
{
    assert(subscriber != NULL && subscriber->active);
    subscriber->received += message > 0;
}

static void publish(struct topic *topic, int message)
{
    int number = number_of_subscribers(topic);
    for (int i = 0; i < number; i++)
        deliver(topic->subscribers[i], message);
}

static void *publisher(void *argument)
{
    int own = (int)(size_t)argument;
    for (int i = 0; i < MESSAGES; i++)
        publish(&topic, 10 * own + i + 1);
    return NULL;
}

static void *leaver(void *unused)
{
    unsubscribe(&topic, &all[1]);
    unsubscribe(&topic, &all[3]);
    return unused;
}

static int received(void)
{
    int sum = 0;
    for (int i = 0; i < SUBSCRIBERS; i++)
        sum += all[i].received;
    return sum;
}

int main(void)
{
    pthread_t publishers[PUBLISHERS], leaving;
    for (int i = 0; i < SUBSCRIBERS; i++)
        subscribe(&topic, &all[i]);
    for (size_t i = 0; i < PUBLISHERS; i++)
        pthread_create(&publishers[i], NULL, publisher, (void *)i);
    pthread_create(&leaving, NULL, leaver, NULL);
    for (int i = 0; i < PUBLISHERS; i++)
        pthread_join(publishers[i], NULL);
    pthread_join(leaving, NULL);
    printf("%d messages\n", received());
    return 0;
}
