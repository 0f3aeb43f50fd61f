/* The program of figure 1 in the Tinertia paper, with its waiting loop in five styles. One thread sets a flag and then a
   variable; the other one waits for the flag and overwrites the variable. Expected: the assertion fails if the other
   thread's write comes between the first one's write and read. */
#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

static atomic_int flag, x;

#if defined TRY_WAIT
static sem_t ready;
#elif defined TIMED_WAIT
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
#endif

static void wait_for_flag(void)
{
#if defined SPIN
    while (!atomic_load(&flag))
        ;
#elif defined YIELD
    while (!atomic_load(&flag))
        sched_yield();
#elif defined SLEEP
    while (!atomic_load(&flag))
        usleep(10);
#elif defined TRY_WAIT
    while (sem_trywait(&ready) != 0)
        sched_yield();
#elif defined TIMED_WAIT
    pthread_mutex_lock(&mutex);
    while (!atomic_load(&flag)) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += 1000;
        if (until.tv_nsec >= 1000000000) {
            until.tv_sec++;
            until.tv_nsec -= 1000000000;
        }
        pthread_cond_timedwait(&changed, &mutex, &until);
    }
    pthread_mutex_unlock(&mutex);
#else
#error a style is missing: SPIN, YIELD, SLEEP, TRY_WAIT or TIMED_WAIT
#endif
}

static void set_flag(void)
{
#if defined TRY_WAIT
    sem_post(&ready);
#elif defined TIMED_WAIT
    pthread_mutex_lock(&mutex);
    atomic_store(&flag, 1);
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&mutex);
#else
    atomic_store(&flag, 1);
#endif
}

static void *one(void *unused)
{
    set_flag();
    atomic_store(&x, 1);
    assert(atomic_load(&x) != 3);
    return unused;
}

static void *two(void *unused)
{
    wait_for_flag();
    atomic_store(&x, 3);
    atomic_store(&flag, 0);
    return unused;
}

int main(void)
{
    pthread_t threads[2];
#if defined TRY_WAIT
    sem_init(&ready, 0, 0);
#endif
    pthread_create(&threads[0], NULL, one, NULL);
    pthread_create(&threads[1], NULL, two, NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
