/* A thread with a small stack recurses until the stack is used up. Expected: SIGSEGV in every schedule, handled on
 * another stack. */
#include <pthread.h>
#include <string.h>

static int depth(int level)
{
    volatile char frame[1024];
    memset((char *)frame, level, sizeof frame);
    return level < 0 ? frame[0] : depth(level + 1) + frame[1];
}

static void *worker(void *result)
{
    *(int *)result = depth(0);
    return NULL;
}

int main(void)
{
    pthread_t thread;
    pthread_attr_t attr;
    int result;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 128 * 1024);
    pthread_create(&thread, &attr, worker, &result);
    pthread_join(thread, NULL);
    return 0;
}
