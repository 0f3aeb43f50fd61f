/* A client gives a question up after 20 ms and asks the next one, in the same place. Expected: the assertion fails if the
 * answer to the first comes late and is taken for one to the second. */
#include "../support.h"

#include <assert.h>
#include <pthread.h>
#include <semaphore.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static sem_t asked, answered;
static int question, answer;

static void *server(void *unused)
{
    for (int i = 0; i < 2; i++) {
        sem_wait(&asked);
        pthread_mutex_lock(&mutex);
        int n = question;
        pthread_mutex_unlock(&mutex);
        pthread_mutex_lock(&mutex);
        answer = n * n;
        pthread_mutex_unlock(&mutex);
        sem_post(&answered);
    }
    return unused;
}

static int ask(int n)
{
    struct timespec limit = deadline_in_ms(CLOCK_REALTIME, 20);
    pthread_mutex_lock(&mutex);
    question = n;
    pthread_mutex_unlock(&mutex);
    sem_post(&asked);
    if (sem_timedwait(&answered, &limit))
        return -1;
    pthread_mutex_lock(&mutex);
    int result = answer;
    pthread_mutex_unlock(&mutex);
    return result;
}

int main(void)
{
    pthread_t thread;
    sem_init(&asked, 0, 0);
    sem_init(&answered, 0, 0);
    pthread_create(&thread, NULL, server, NULL);
    ask(3);
    int result = ask(4);
    assert(result == -1 || result == 16); /* FAIL */
    pthread_join(thread, NULL);
}
