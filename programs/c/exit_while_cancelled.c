/* A thread that was asked to stop leaves by pthread_exit first. Its cleanup handlers and destructors pass
 * cancellation points and are not interrupted there, whatever they enable. Expected: all of them run to their
 * end, and the result is that of pthread_exit. */
#include "../support.h"

#include <pthread.h>
#include <semaphore.h>
#include <unistd.h>

static sem_t asked_to_stop;
static pthread_key_t key;
static int finished;

static void pass_cancellation_points(void *unused)
{
    (void)unused;
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
    pthread_testcancel();
    usleep(10);
    finished++;
}

static void leave(void)
{
    pthread_exit((void *)42);
}

static void *worker(void *unused)
{
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    pthread_setspecific(key, &key);
    sem_wait(&asked_to_stop);
    pthread_cleanup_push(pass_cancellation_points, NULL);
    pthread_cleanup_push(pass_cancellation_points, NULL);
    leave();
    pthread_cleanup_pop(0);
    pthread_cleanup_pop(0);
    return unused;
}

int main(void)
{
    pthread_t thread;
    void *result;
    sem_init(&asked_to_stop, 0, 0);
    pthread_key_create(&key, pass_cancellation_points);
    pthread_create(&thread, NULL, worker, NULL);
    pthread_cancel(thread);
    sem_post(&asked_to_stop);
    pthread_join(thread, &result);
    CHECK(result == (void *)42 && finished == 3);
}
