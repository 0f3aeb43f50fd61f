/* Two operations are done in one order and logged in the other, through a file (the paper's second case). */
#include "noise.h"
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int file;
static char latest;
static void *delete(void *a)
{
    pthread_mutex_lock(&lock);
    latest = 'd'; /* CAUSE */
    pthread_mutex_unlock(&lock);
    sched_yield();
    write(file, "d", 1); /* ROOT */
    return a;
}
static void *insert(void *a)
{
    pthread_mutex_lock(&lock);
    latest = 'i';
    pthread_mutex_unlock(&lock);
    sched_yield();
    write(file, "i", 1); /* ROOT */
    return a;
}
int main(void)
{
    char logged[2];
    pthread_t a, b, c;
    file = open("binlog", O_RDWR | O_CREAT | O_TRUNC, 0600);
    pthread_create(&c, NULL, noise, NULL);
    pthread_create(&a, NULL, delete, NULL);
    pthread_create(&b, NULL, insert, NULL);
    pthread_join(a, NULL);
    pthread_join(b, NULL);
    pthread_join(c, NULL); /* UNRELATED */
    lseek(file, 0, SEEK_SET);
    read(file, logged, 2); /* CAUSE */
    if (logged[1] == 'i' && latest == 'd')
        abort(); /* CAUSE */
    return 0;
}
