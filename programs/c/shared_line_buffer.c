/* Two threads print a line each, from one buffer. Expected: the check fails if one of the lines is printed
 * twice. */
#include "../support.h"
#include <pthread.h>
#include <string.h>

static FILE *file;
static char line[2];

static void *print(void *letter)
{
    line[0] = *(char *)letter;
    fputs(line, file);
    return NULL;
}

int main(void)
{
    pthread_t threads[2];
    char printed[3] = "";
    file = tmpfile();
    pthread_create(&threads[0], NULL, print, "a");
    pthread_create(&threads[1], NULL, print, "b");
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    rewind(file);
    CHECK(fgets(printed, sizeof printed, file) == printed);
    CHECK(strchr(printed, 'a') && strchr(printed, 'b')); /* FAIL */
    return 0;
}
