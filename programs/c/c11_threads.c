/* C11 threads: thrd_create/join/yield/equal/exit, plain and recursive mtx_, cnd_signal and cnd_broadcast,
 * call_once. Expected: three threads pass the gate, the sum of their results is 6. */
#include "../support.h"

#include <threads.h>

static once_flag once = ONCE_FLAG_INIT;
static mtx_t mutex, nested;
static cnd_t arrived, opened;
static int arrivals, is_open, initialised;

static void initialise(void)
{
    initialised++;
}

static int pass_gate(void *number)
{
    call_once(&once, initialise);
    CHECK(mtx_lock(&mutex) == thrd_success);
    arrivals++;
    cnd_signal(&arrived);
    while (!is_open)
        CHECK(cnd_wait(&opened, &mutex) == thrd_success);
    CHECK(mtx_unlock(&mutex) == thrd_success);
    thrd_yield();
    thrd_exit(*(int *)number);
}

int main(void)
{
    thrd_t threads[3];
    int numbers[3] = { 1, 2, 3 }, sum = 0;
    CHECK(mtx_init(&mutex, mtx_plain) == thrd_success);
    CHECK(mtx_init(&nested, mtx_plain | mtx_recursive) == thrd_success);
    CHECK(cnd_init(&arrived) == thrd_success && cnd_init(&opened) == thrd_success);
    for (int i = 0; i < 3; i++)
        CHECK(thrd_create(&threads[i], pass_gate, &numbers[i]) == thrd_success);
    CHECK(!thrd_equal(threads[0], thrd_current()));

    CHECK(mtx_lock(&nested) == thrd_success && mtx_trylock(&nested) == thrd_success);
    mtx_lock(&mutex);
    while (arrivals < 3)
        cnd_wait(&arrived, &mutex);
    is_open = 1;
    cnd_broadcast(&opened);
    mtx_unlock(&mutex);
    CHECK(mtx_unlock(&nested) == thrd_success && mtx_unlock(&nested) == thrd_success);

    for (int i = 0; i < 3; i++) {
        int result;
        CHECK(thrd_join(threads[i], &result) == thrd_success);
        sum += result;
    }
    cnd_destroy(&arrived);
    cnd_destroy(&opened);
    mtx_destroy(&mutex);
    mtx_destroy(&nested);
    printf("%d %d\n", sum, initialised);
}
