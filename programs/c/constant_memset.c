/* One thread clears a name by memset of a constant size, which compilers expand to plain stores, while
 * another one looks at it. Expected: the assertion fails if the name is cleared between the two looks. */
#include <assert.h>
#include <pthread.h>
#include <string.h>

static char name[8] = "unsnarl";

static void *clear(void *unused)
{
    memset(name, 0, sizeof name);
    return unused;
}

int main(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, clear, NULL);
    if (name[0] != 0)
        assert(name[1] != 0); /* FAIL */
    pthread_join(thread, NULL);
    return 0;
}
