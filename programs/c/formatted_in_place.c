/* Two threads format their numbers into one buffer by snprintf, and keep a copy. Expected: the check fails
 * if a thread copies the other one's text. */
#include "../support.h"
#include <pthread.h>
#include <string.h>

static char text[16];

static void *format(void *number)
{
    char mine[16], copy[16];
    snprintf(mine, sizeof mine, "%d", *(int *)number);
    snprintf(text, sizeof text, "%d", *(int *)number);
    strcpy(copy, text);
    CHECK(strcmp(copy, mine) == 0); /* FAIL */
    return NULL;
}

int main(void)
{
    pthread_t threads[2];
    int numbers[2] = { 1000, 2000 };
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, format, &numbers[i]);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
