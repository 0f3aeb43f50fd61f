/* Plain accesses and mem/str functions that never race: threads fill disjoint slices, and join hands them
 * over. Expected: the same line in every schedule, and no race to report. */
#include "../support.h"

#include <pthread.h>
#include <string.h>

enum { SLICE = 8 };

static char text[3 * SLICE];
static const char *words[3] = { "one", "two", "three" };

static void *fill(void *slice)
{
    long number = ((char *)slice - text) / SLICE;
    char copy[SLICE];
    memset(copy, 0, sizeof copy);
    strcpy(copy, words[number]);
    strcat(copy, " ");
    memcpy(slice, copy, strlen(copy));
    return NULL;
}

int main(void)
{
    pthread_t threads[3];
    char line[sizeof text + 1] = "";
    for (int i = 0; i < 3; i++)
        CHECK(pthread_create(&threads[i], NULL, fill, text + i * SLICE) == 0);
    for (int i = 0; i < 3; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    for (int i = 0; i < 3; i++)
        strncat(line, text + i * SLICE, SLICE);
    memmove(line + 1, line, strlen(line) + 1);
    line[0] = '>';
    puts(line);
}
