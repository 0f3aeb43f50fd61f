#define _GNU_SOURCE
#include "first.h"
#include <signal.h>
#include <stddef.h>
#include <time.h>

pthread_rwlock_t written = PTHREAD_RWLOCK_INITIALIZER, read_and_written = PTHREAD_RWLOCK_INITIALIZER;
pthread_rwlock_t still_written = PTHREAD_RWLOCK_INITIALIZER, still_read = PTHREAD_RWLOCK_INITIALIZER;
pthread_mutex_t used = PTHREAD_MUTEX_INITIALIZER, still_held = PTHREAD_MUTEX_INITIALIZER;
pthread_mutex_t recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP, checked = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
pthread_cond_t waited_for = PTHREAD_COND_INITIALIZER;
pthread_barrier_t barrier;
pthread_spinlock_t spin, still_spun;
sem_t semaphore;
pthread_once_t once = PTHREAD_ONCE_INIT;
int handled;

static int counted;
void count(void) { counted++; }
static void handle(int signal) { handled += signal; }

static void *arrives(void *unused)
{
    pthread_barrier_wait(&barrier);
    return unused;
}

__attribute__((constructor)) static void constructor(void)
{
    struct timespec past = {0, 0};
    pthread_t thread;
    sigset_t set;
    pthread_rwlock_wrlock(&written);
    pthread_rwlock_unlock(&written);
    pthread_rwlock_rdlock(&read_and_written);
    pthread_rwlock_unlock(&read_and_written);
    pthread_rwlock_wrlock(&read_and_written);
    pthread_rwlock_unlock(&read_and_written);
    pthread_rwlock_wrlock(&still_written);
    pthread_rwlock_rdlock(&still_read);
    pthread_mutex_lock(&used);
    pthread_cond_timedwait(&waited_for, &used, &past);
    pthread_cond_signal(&waited_for);
    pthread_mutex_unlock(&used);
    pthread_mutex_lock(&still_held);
    pthread_mutex_lock(&recursive);
    pthread_mutex_lock(&recursive);
    pthread_mutex_lock(&checked);
    sem_init(&semaphore, 0, 1);
    sem_post(&semaphore);
    pthread_barrier_init(&barrier, NULL, 2);
    pthread_create(&thread, NULL, arrives, NULL);
    pthread_barrier_wait(&barrier);
    pthread_join(thread, NULL);
    pthread_spin_init(&spin, 0);
    pthread_spin_lock(&spin);
    pthread_spin_unlock(&spin);
    pthread_spin_init(&still_spun, 0);
    pthread_spin_lock(&still_spun);
    pthread_once(&once, count);
    signal(SIGUSR1, handle);
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    raise(SIGUSR1);
}
