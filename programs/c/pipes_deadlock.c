/* Two threads talk through two pipes, and who comes first begins. But each counts itself before it looks: if both did,
 * nobody begins. Expected: a deadlock through two pipes in some schedules. */
#include "../support.h"

#include <pthread.h>
#include <unistd.h>

static int to_left[2], to_right[2];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int here;

static void *talk(void *is_left)
{
    int in = is_left ? to_left[0] : to_right[0];
    int out = is_left ? to_right[1] : to_left[1];
    char word = 'x';
    pthread_mutex_lock(&mutex);
    here++;
    pthread_mutex_unlock(&mutex);
    pthread_mutex_lock(&mutex);
    int begins = here == 1;
    pthread_mutex_unlock(&mutex);
    if (begins)
        CHECK(write(out, &word, 1) == 1);
    CHECK(read(in, &word, 1) == 1);
    if (!begins)
        CHECK(write(out, &word, 1) == 1);
    return NULL;
}

int main(void)
{
    pthread_t left, right;
    CHECK(pipe(to_left) == 0 && pipe(to_right) == 0);
    pthread_create(&left, NULL, talk, &to_left);
    pthread_create(&right, NULL, talk, NULL);
    pthread_join(left, NULL);
    pthread_join(right, NULL);
}
