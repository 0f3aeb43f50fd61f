/* Reused memory contains data of the C library, including one of its random numbers. Expected: exit 0, and the same
 * contents in every run. */
#include "../support.h"

#include <pthread.h>

enum { PIECES = 7, SIZE = 24 };

static void *leave_marks(void *unused)
{
    void *pieces[PIECES];
    for (int i = 0; i < PIECES; i++)
        pieces[i] = malloc(SIZE);
    for (int i = 0; i < PIECES; i++)
        free(pieces[i]);
    return unused;
}

/* Gets the memory that the thread before had, its marks included. */
static void *write_over(void *unused)
{
    volatile long *piece = malloc(PIECES * 48 + 1200);
    for (int i = 0; i < 190; i++)
        piece[i] = i;
    free((void *)piece);
    return unused;
}

int main(void)
{
    pthread_t thread;
    for (int round = 0; round < 3; round++) {
        pthread_create(&thread, NULL, leave_marks, NULL);
        pthread_join(thread, NULL);
        pthread_create(&thread, NULL, write_over, NULL);
        pthread_join(thread, NULL);
    }
}
