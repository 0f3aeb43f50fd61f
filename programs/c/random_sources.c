/* Two threads draw from every random source and print what they got. Expected: exit 0, and a replay prints
 * exactly the same numbers. */
#define _GNU_SOURCE
#include "../support.h"

#include <pthread.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/random.h>
#include <unistd.h>

static void *draw(void *name)
{
    unsigned long by_getrandom = 0, by_getentropy = 0, by_arc4random_buf = 0;
    CHECK(getrandom(&by_getrandom, sizeof by_getrandom, 0) == sizeof by_getrandom);
    CHECK(getentropy(&by_getentropy, sizeof by_getentropy) == 0);
    arc4random_buf(&by_arc4random_buf, sizeof by_arc4random_buf);
    unsigned by_arc4random = arc4random(), below_100 = arc4random_uniform(100);
    CHECK(below_100 < 100 && by_getrandom != by_getentropy);
    printf("%s %lx %lx %lx %x %u\n", (char *)name, by_getrandom, by_getentropy, by_arc4random_buf,
           by_arc4random, below_100);
    return NULL;
}

int main(void)
{
    pthread_t threads[2];
    unsigned long at_start;
    memcpy(&at_start, (void *)getauxval(AT_RANDOM), sizeof at_start);
    printf("AT_RANDOM %lx\n", at_start);
    CHECK(pthread_create(&threads[0], NULL, draw, "first") == 0);
    CHECK(pthread_create(&threads[1], NULL, draw, "second") == 0);
    for (int i = 0; i < 2; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
}
