/* Services send heartbeats, and a watchdog polls them with sleeps and restarts those that are silent. The error: a service
   that starts again resets its counter after it has announced itself to the watchdog. */
#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#define SERVICES 2
#define BEATS 5
#define CHECKS 5

struct service {
    atomic_int running;
    atomic_int beats;
    atomic_int finished;
    int starts;
    pthread_t thread;
};

struct watch {
    int last_seen;
    int silent;
};

static struct service services[SERVICES];
static struct watch watches[SERVICES];

static int beats_of(struct service *service)
{
    return atomic_load(&service->beats);
}

static int is_running(struct service *service)
{
    return atomic_load(&service->running);
}

static int has_finished(struct service *service)
{
    return atomic_load(&service->finished);
}

static void announce(struct service *service)
{
    atomic_store(&service->running, 1);
}

static void reset(struct service *service)
{
    atomic_store(&service->beats, 0);
}

static void beat(struct service *service)
{
    atomic_fetch_add(&service->beats, 1);
}

static void do_some_work(int amount)
{
    if (amount % 2)
        usleep(10);
}

static void *serve(void *argument)
{
    struct service *service = argument;
    service->starts++;
    announce(service);
    beat(service);
    do_some_work(1);
    reset(service);
    for (int i = 0; i < BEATS; i++) {
        beat(service);
        do_some_work(i);
    }
    atomic_store(&service->finished, 1);
    return NULL;
}

static void note(struct watch *watch, int beats)
{
    /* Beats never become fewer. */
    assert(beats >= watch->last_seen);
    watch->silent = beats == watch->last_seen ? watch->silent + 1 : 0;
    watch->last_seen = beats;
}

static void check(struct service *service, struct watch *watch)
{
    if (is_running(service) && !has_finished(service))
        note(watch, beats_of(service));
}

static int all_finished(void)
{
    for (int i = 0; i < SERVICES; i++)
        if (!has_finished(&services[i]))
            return 0;
    return 1;
}

static void *watchdog(void *unused)
{
    for (int i = 0; i < CHECKS && !all_finished(); i++) {
        for (int j = 0; j < SERVICES; j++)
            check(&services[j], &watches[j]);
        usleep(20);
    }
    return unused;
}

int main(void)
{
    pthread_t watching;
    pthread_create(&watching, NULL, watchdog, NULL);
    for (int i = 0; i < SERVICES; i++)
        pthread_create(&services[i].thread, NULL, serve, &services[i]);
    for (int i = 0; i < SERVICES; i++)
        pthread_join(services[i].thread, NULL);
    pthread_join(watching, NULL);
    puts("all services finished");
    return 0;
}
