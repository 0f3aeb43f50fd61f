/* A mailbox that looks for messages only now and then, by the processor's time-stamp counter, as libzmq's does: which
 * operations the threads make depends on it. The worker blocks all signals. Expected: exit 0, and the same readings in
 * each replay. */
#include "../support.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <x86intrin.h>

enum { MESSAGES = 20, TICKS = 30000 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t filled = PTHREAD_COND_INITIALIZER;
static int sent;

static int received_at(uint64_t now, uint64_t *last)
{
    int count;
    if (now - *last < TICKS)
        return -1;
    *last = now;
    pthread_mutex_lock(&mutex);
    count = sent;
    pthread_mutex_unlock(&mutex);
    return count;
}

static void *worker(void *unused)
{
    sigset_t all, before;
    sigfillset(&all);
    CHECK(pthread_sigmask(SIG_BLOCK, &all, NULL) == 0);
    for (int i = 0; i < MESSAGES; i++) {
        uint64_t now = __rdtsc();
        pthread_mutex_lock(&mutex);
        sent++;
        pthread_cond_signal(&filled);
        pthread_mutex_unlock(&mutex);
        CHECK(__rdtsc() > now);
    }
    CHECK(pthread_sigmask(SIG_SETMASK, NULL, &before) == 0);
    CHECK(sigismember(&before, SIGSEGV) == 1 && sigismember(&before, SIGTERM) == 1);
    return unused;
}

int main(void)
{
    pthread_t thread;
    unsigned int processor;
    uint64_t last = 0, first = __rdtsc();
    sigset_t mask;
    CHECK(pthread_sigmask(SIG_SETMASK, NULL, &mask) == 0 && sigismember(&mask, SIGSEGV) == 0);
    CHECK(pthread_create(&thread, NULL, worker, NULL) == 0);
    for (int looks = 0, count = 0; count < MESSAGES; looks++) {
        uint64_t now = __rdtscp(&processor);
        int found = received_at(now, &last);
        if (found < 0) {
            sched_yield();
            continue;
        }
        count = found;
        printf("look %d at tick %llu finds %d\n", looks, (unsigned long long)(now - first), count);
    }
    CHECK(pthread_join(thread, NULL) == 0);
}
