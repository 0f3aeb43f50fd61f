/* A record is replaced by memset and memcpy while another thread copies it out. Expected: the assertion
 * fails on a copy made in between. */
#include <assert.h>
#include <pthread.h>
#include <string.h>

struct record {
    int width, height;
    char label[56];
};

static struct record shared = { 3, 4, "three by four" };
static size_t record_size = sizeof shared; /* not a constant, so that no call is expanded in line */

static void *replace(void *unused)
{
    struct record next = { 5, 6, "five by six" };
    memset(&shared, 0, record_size);
    memcpy(&shared, &next, record_size);
    return unused;
}

int main(void)
{
    pthread_t thread;
    struct record copy;
    pthread_create(&thread, NULL, replace, NULL);
    memcpy(&copy, &shared, record_size);
    pthread_join(thread, NULL);
    assert(copy.width != 0 && copy.height == copy.width + 1); /* FAIL */
    return 0;
}
