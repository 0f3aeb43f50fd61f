/* Stack size, guard size, scope and detach state are read back from the attributes, and the thread's real
 * stack has the size that was asked for. Expected: exit 0. */
#define _GNU_SOURCE
#include "../support.h"

#include <pthread.h>

enum { STACK_SIZE = 256 * 1024, GUARD_SIZE = 8192 };

static void *look_at_my_stack(void *unused)
{
    pthread_attr_t mine;
    void *lowest;
    size_t size;
    char local;
    CHECK(pthread_getattr_np(pthread_self(), &mine) == 0);
    CHECK(pthread_attr_getstack(&mine, &lowest, &size) == 0);
    CHECK(size >= STACK_SIZE / 2 && size <= STACK_SIZE * 2);
    CHECK(&local > (char *)lowest && &local < (char *)lowest + size);
    pthread_attr_destroy(&mine);
    return unused;
}

int main(void)
{
    pthread_t thread;
    pthread_attr_t attr;
    size_t size;
    int state;
    pthread_attr_init(&attr);
    CHECK(pthread_attr_getdetachstate(&attr, &state) == 0 && state == PTHREAD_CREATE_JOINABLE);
    CHECK(pthread_attr_setstacksize(&attr, STACK_SIZE) == 0);
    CHECK(pthread_attr_setguardsize(&attr, GUARD_SIZE) == 0);
    CHECK(pthread_attr_getstacksize(&attr, &size) == 0 && size == STACK_SIZE);
    CHECK(pthread_attr_getguardsize(&attr, &size) == 0 && size == GUARD_SIZE);
    CHECK(pthread_create(&thread, &attr, look_at_my_stack, NULL) == 0);
    pthread_attr_destroy(&attr);
    CHECK(pthread_join(thread, NULL) == 0);
}
