/* Sets the ids of the process while a thread is there and when all are gone: the C library has every thread of the
 * kernel do so, and there is but one. Expected: all calls return. */
#define _GNU_SOURCE
#include "../support.h"

#include <errno.h>
#include <grp.h>
#include <pthread.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void *wait_for_main(void *unused)
{
    pthread_mutex_lock(&mutex);
    pthread_mutex_unlock(&mutex);
    return unused;
}

static void set_ids(void)
{
    CHECK(setuid(getuid()) == 0);
    CHECK(setgid(getgid()) == 0);
    CHECK(seteuid(geteuid()) == 0);
    CHECK(setresgid(getgid(), getegid(), -1) == 0);
    /* Only the superuser may. */
    CHECK(initgroups("root", getgid()) == 0 || errno == EPERM);
}

int main(void)
{
    pthread_t thread;
    pthread_mutex_lock(&mutex);
    CHECK(pthread_create(&thread, NULL, wait_for_main, NULL) == 0);
    set_ids();
    pthread_mutex_unlock(&mutex);
    CHECK(pthread_join(thread, NULL) == 0);
    set_ids();
    puts("done");
}
