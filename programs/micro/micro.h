/* What the scenarios have in common: threads that run side by side, and short names for locks. */
#ifndef MICRO_H
#define MICRO_H

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stddef.h>

#define LOCKED(m, what) (pthread_mutex_lock(&(m)), (what), pthread_mutex_unlock(&(m)))

/* Starts the threads, in this order, and waits for them. */
#define SIDE_BY_SIDE(...) side_by_side((void *(*[])(void *)){ __VA_ARGS__, NULL })

static inline void side_by_side(void *(*const routines[])(void *))
{
    pthread_t threads[8];
    int count = 0;
    for (; routines[count]; count++)
        pthread_create(&threads[count], NULL, routines[count], NULL);
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
}

#endif
