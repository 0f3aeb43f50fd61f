/* What the C and C++ programs share: a check that is never compiled out, and deadlines for timed waits. */
#ifndef PROGRAMS_SUPPORT_H
#define PROGRAMS_SUPPORT_H

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* Like assert, but the expression is always evaluated, so it may be a call. */
#define CHECK(expression) ((expression) ? (void)0 : check_failed(#expression, __FILE__, __LINE__))

static inline void check_failed(const char *expression, const char *file, int line)
{
    fprintf(stderr, "%s:%d: check failed: %s\n", file, line, expression);
    abort();
}

static inline struct timespec deadline_in_ms(clockid_t clock, long ms)
{
    struct timespec t;
    clock_gettime(clock, &t);
    t.tv_sec += ms / 1000;
    t.tv_nsec += ms % 1000 * 1000000;
    if (t.tv_nsec >= 1000000000) {
        t.tv_sec += 1;
        t.tv_nsec -= 1000000000;
    }
    return t;
}

static inline int has_passed(clockid_t clock, struct timespec deadline)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec != deadline.tv_sec ? now.tv_sec > deadline.tv_sec : now.tv_nsec >= deadline.tv_nsec;
}

#endif
