#define _GNU_SOURCE
#include "first.h"
#include <signal.h>
#include <stdio.h>

#define SHOW(call) printf("%s = %d\n", #call, call)

static int arrived;
static void *other(void *unused)
{
    SHOW(pthread_rwlock_tryrdlock(&still_written));
    SHOW(pthread_rwlock_trywrlock(&still_read));
    SHOW(pthread_mutex_trylock(&still_held));
    SHOW(pthread_mutex_trylock(&recursive));
    SHOW(pthread_mutex_unlock(&checked));
    SHOW(pthread_spin_trylock(&still_spun));
    return unused;
}
static void *arrives(void *unused)
{
    arrived++;
    pthread_barrier_wait(&barrier);
    return unused;
}
int main(void)
{
    pthread_t thread;
    struct timespec past = {0, 0};
    int value;
    sigset_t set, pending;
    pthread_create(&thread, NULL, other, NULL);
    pthread_join(thread, NULL);
    SHOW(pthread_rwlock_tryrdlock(&written));
    SHOW(pthread_rwlock_unlock(&written));
    SHOW(pthread_rwlock_wrlock(&read_and_written));
    SHOW(pthread_rwlock_unlock(&read_and_written));
    SHOW(pthread_rwlock_rdlock(&still_written));
    SHOW(pthread_rwlock_wrlock(&still_written));
    SHOW(pthread_rwlock_unlock(&still_written));
    SHOW(pthread_rwlock_trywrlock(&still_written));
    SHOW(pthread_rwlock_trywrlock(&still_read));
    SHOW(pthread_rwlock_unlock(&still_read));
    SHOW(pthread_rwlock_trywrlock(&still_read));
    SHOW(pthread_mutex_lock(&recursive));
    SHOW(pthread_mutex_lock(&checked));
    SHOW(pthread_mutex_unlock(&checked));
    SHOW(pthread_mutex_unlock(&still_held));
    for (int i = 0; i < 3; i++) SHOW(pthread_mutex_unlock(&recursive));
    pthread_mutex_lock(&used);
    SHOW(pthread_cond_timedwait(&waited_for, &used, &past));
    SHOW(pthread_mutex_unlock(&used));
    SHOW(sem_getvalue(&semaphore, &value));
    SHOW(value);
    pthread_create(&thread, NULL, arrives, NULL);
    pthread_barrier_wait(&barrier);
    SHOW(arrived);
    pthread_join(thread, NULL);
    SHOW(pthread_spin_trylock(&spin));
    SHOW(pthread_spin_unlock(&still_spun));
    SHOW(pthread_once(&once, count));
    sigpending(&pending);
    SHOW(sigismember(&pending, SIGUSR1));
    SHOW(handled);
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    SHOW(handled == SIGUSR1);
    return 0;
}
