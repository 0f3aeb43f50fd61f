/* A comparison that the library calls reads a variable that another thread changes. */
#include "noise.h"
#include <stdlib.h>
static volatile int descending;
static int numbers[4] = { 3, 1, 4, 2 };
static int compare(const void *left, const void *right)
{
    int difference = *(const int *)left - *(const int *)right;
    return descending ? -difference : difference; /* ROOT */
}
static void *sort(void *p)
{
    qsort(numbers, 4, sizeof numbers[0], compare); /* CAUSE */
    return p;
}
static void *turn(void *p)
{
    descending = 1; /* ROOT */
    return p;
}
int main(void)
{
    pthread_t a, b, c;
    pthread_create(&c, NULL, noise, NULL);
    pthread_create(&a, NULL, sort, NULL);
    pthread_create(&b, NULL, turn, NULL);
    pthread_join(a, NULL);
    pthread_join(b, NULL);
    pthread_join(c, NULL); /* UNRELATED */
    if (numbers[0] != 1)
        abort(); /* CAUSE */
    return 0;
}
