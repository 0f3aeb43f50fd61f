/* Random sequences of operations on threads, signals and timers, one thread at a time: the results and error numbers
   must be the same with and without control.

   usage: main FIRST COUNT; runs the sequences with the numbers FIRST, FIRST + 1 ...

   This is a library. Its constructor performs the first operations of a sequence in the main thread, before control
   begins; the rest is a series of turns of the main thread, of two other threads and of children. No operation waits:
   each is tried, has a deadline that has passed, or is known to be possible. All threads block the signals between
   their turns, so that it is certain which thread takes one. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MUTEXES = 4, RWLOCKS = 2, CONDS = 2, SEMAPHORES = 2, THREADS = 3 };

struct objects {
    pthread_mutex_t mutexes[MUTEXES];
    int types[MUTEXES], robust[MUTEXES];
    /* glibc leaves a mutex that cannot be recovered locked after a trylock, so it is not used again. */
    int lost[MUTEXES];
    /* How often each thread holds each lock. */
    int held[MUTEXES][THREADS], read[RWLOCKS][THREADS], written[RWLOCKS][THREADS];
    pthread_rwlock_t rwlocks[RWLOCKS];
    pthread_cond_t conds[CONDS];
    clockid_t clocks[CONDS];
    sem_t semaphores[SEMAPHORES];
    pthread_barrier_t barrier;
    unsigned threads_of_barrier;
    pthread_once_t once;
    pthread_spinlock_t spin;
    int spun_by;
    timer_t timer;
    int has_timer;
};

static struct objects *o;
static unsigned long long state;
static volatile sig_atomic_t handled[65];
static int once_calls, is_in_constructor;
static char text[1 << 16];
static size_t used;

static unsigned below(unsigned bound)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (unsigned)(state >> 33) % bound;
}

static void seed(unsigned long long number)
{
    state = number * 0x9e3779b97f4a7c15ull + 0x1234567;
    for (int i = 0; i < 8; i++) below(2);
}

__attribute__((format(printf, 1, 2))) static void note(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    used += (size_t)vsnprintf(text + used, sizeof text - used, format, arguments);
    va_end(arguments);
    if (used > sizeof text - 256) used = sizeof text - 256;
}

/* The result of a function that returns an error number, and of one that sets errno. */
static void error(const char *name, int which, int result)
{
    note("%s%d=%d ", name, which, result);
}

static void failed(const char *name, int which, int result)
{
    note("%s%d=%d", name, which, result);
    if (result == -1) note("/%d", errno);
    note(" ");
}

static void handler(int signal) { handled[signal]++; }
static void handler_with_information(int signal, siginfo_t *info, void *context)
{
    (void)context;
    handled[signal] += 100 + (info->si_signo == signal);
}

static void once(void) { once_calls++; }

/* A moment that has passed, or an invalid one. */
static struct timespec past(void)
{
    struct timespec time = {.tv_sec = 1000 * below(2), .tv_nsec = below(8) == 0 ? 1000000000 : below(2)};
    return time;
}

static const int SIGNALS[] = {SIGUSR1, SIGUSR2, SIGPROF, SIGCHLD, SIGWINCH, SIGURG, SIGTERM, SIGALRM, 34, 40};
enum { HOW_MANY = sizeof SIGNALS / sizeof *SIGNALS };
static int any_signal(void) { return SIGNALS[below(HOW_MANY)]; }

static sigset_t all_signals(void)
{
    sigset_t set;
    sigemptyset(&set);
    for (int i = 0; i < HOW_MANY; i++) sigaddset(&set, SIGNALS[i]);
    return set;
}

/* Whether the default action would end the process. */
static int is_fatal(int signal)
{
    struct sigaction action;
    sigaction(signal, NULL, &action);
    return action.sa_handler == SIG_DFL && signal != SIGCHLD && signal != SIGWINCH && signal != SIGURG;
}

static void show_pending(void)
{
    sigset_t pending;
    sigpending(&pending);
    note("pending");
    for (int i = 0; i < HOW_MANY; i++) note("%d", sigismember(&pending, SIGNALS[i]));
    note(" ");
}

static void init_mutex(int which)
{
    static const int TYPES[] = {PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_RECURSIVE, PTHREAD_MUTEX_ERRORCHECK,
                                PTHREAD_MUTEX_ADAPTIVE_NP};
    pthread_mutexattr_t attr;
    pthread_mutexattr_init(&attr);
    o->types[which] = TYPES[below(4)];
    o->robust[which] = below(3) == 0;
    pthread_mutexattr_settype(&attr, o->types[which]);
    if (o->robust[which]) pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
    if (below(4) == 0) pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    if (!o->robust[which] && below(5) == 0) pthread_mutexattr_setprotocol(&attr, PTHREAD_PRIO_INHERIT);
    error("minit", which, pthread_mutex_init(&o->mutexes[which], &attr));
    memset(o->held[which], 0, sizeof o->held[which]);
    pthread_mutexattr_destroy(&attr);
}

static void init_rwlock(int which)
{
    pthread_rwlockattr_t attr;
    pthread_rwlockattr_init(&attr);
    pthread_rwlockattr_setkind_np(&attr, (int)below(3));
    if (below(4) == 0) pthread_rwlockattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    error("rinit", which, pthread_rwlock_init(&o->rwlocks[which], &attr));
    pthread_rwlockattr_destroy(&attr);
}

static void init_cond(int which)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    o->clocks[which] = below(2) ? CLOCK_MONOTONIC : CLOCK_REALTIME;
    pthread_condattr_setclock(&attr, o->clocks[which]);
    if (below(4) == 0) pthread_condattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    error("cinit", which, pthread_cond_init(&o->conds[which], &attr));
    pthread_condattr_destroy(&attr);
}

static void init_objects(void)
{
    /* Never freed: the kernel's list of a thread's robust mutexes may refer to it. */
    o = calloc(1, sizeof *o);
    o->once = PTHREAD_ONCE_INIT;
    o->spun_by = -1;
    once_calls = 0;
    if (below(4) != 0) {
        for (int i = 0; i < MUTEXES; i++) init_mutex(i);
        for (int i = 0; i < RWLOCKS; i++) init_rwlock(i);
        for (int i = 0; i < CONDS; i++) init_cond(i);
    }
    for (int i = 0; i < SEMAPHORES; i++) failed("seminit", i, sem_init(&o->semaphores[i], (int)below(2), below(3)));
    o->threads_of_barrier = 1 + below(2);
    error("binit", 0, pthread_barrier_init(&o->barrier, NULL, o->threads_of_barrier));
    error("sinit", 0, pthread_spin_init(&o->spin, (int)below(2)));
}

static void locked(int which, int me, int result)
{
    if (result == 0 || result == EOWNERDEAD) o->held[which][me]++;
    if (result == ENOTRECOVERABLE) o->lost[which] = 1;
}

/* A thread that ends while it holds a mutex. */
static void *locks_and_ends(void *mutex)
{
    return (void *)(long)pthread_mutex_trylock(mutex);
}

static void mutex_operation(int me)
{
    int which = (int)below(MUTEXES), result;
    pthread_mutex_t *mutex = &o->mutexes[which];
    struct timespec time = past();
    if (o->lost[which]) return;
    int known = o->types[which] == PTHREAD_MUTEX_RECURSIVE || o->types[which] == PTHREAD_MUTEX_ERRORCHECK;
    switch (below(10)) {
    case 0:
    case 1:
        result = pthread_mutex_trylock(mutex);
        error("mtry", which, result);
        locked(which, me, result);
        break;
    case 2:
        result = pthread_mutex_timedlock(mutex, &time);
        error("mtimed", which, result);
        locked(which, me, result);
        break;
    case 3:
        /* glibc refuses other clocks before it looks at the mutex. */
        result = pthread_mutex_clocklock(mutex, below(4) ? CLOCK_MONOTONIC : CLOCK_TAI, &time);
        error("mclock", which, result);
        locked(which, me, result);
        break;
    case 4:
        if (known && o->held[which][me] > 0) {
            result = pthread_mutex_lock(mutex);
            error("mlock", which, result);
            locked(which, me, result);
        }
        break;
    case 5:
    case 6:
    case 7:
        if (known || o->robust[which] || o->held[which][me] > 0) {
            result = pthread_mutex_unlock(mutex);
            error("munlock", which, result);
            if (result == 0 && o->held[which][me] > 0) o->held[which][me]--;
            if (result == ENOTRECOVERABLE) o->lost[which] = 1;
        }
        break;
    case 8:
        if (o->robust[which]) {
            if (below(2)) {
                /* glibc does not check that the thread holds it. */
                if (o->held[which][me] > 0) error("mconsistent", which, pthread_mutex_consistent(mutex));
            } else {
                pthread_t thread;
                void *value;
                pthread_create(&thread, NULL, locks_and_ends, mutex);
                pthread_join(thread, &value);
                error("mends", which, (int)(long)value);
                if ((long)value == ENOTRECOVERABLE) o->lost[which] = 1;
            }
        }
        break;
    default: {
        int users = 0;
        for (int i = 0; i < THREADS; i++) users += o->held[which][i];
        if (users > 0 && o->robust[which]) break;
        result = pthread_mutex_destroy(mutex);
        error("mdestroy", which, result);
        if (result == 0) init_mutex(which);
    }
    }
}

static void rwlock_operation(int me)
{
    int which = (int)below(RWLOCKS), result, write = (int)below(2);
    pthread_rwlock_t *lock = &o->rwlocks[which];
    int *count = write ? &o->written[which][me] : &o->read[which][me];
    struct timespec time = past();
    switch (below(6)) {
    case 0:
    case 1:
        result = write ? pthread_rwlock_trywrlock(lock) : pthread_rwlock_tryrdlock(lock);
        error(write ? "wtry" : "rtry", which, result);
        *count += result == 0;
        break;
    case 2:
        result = write ? pthread_rwlock_timedwrlock(lock, &time) : pthread_rwlock_timedrdlock(lock, &time);
        error(write ? "wtimed" : "rtimed", which, result);
        *count += result == 0;
        break;
    case 3:
        result = write ? pthread_rwlock_clockwrlock(lock, CLOCK_MONOTONIC, &time)
                       : pthread_rwlock_clockrdlock(lock, CLOCK_MONOTONIC, &time);
        error(write ? "wclock" : "rclock", which, result);
        *count += result == 0;
        break;
    case 4:
        if (o->written[which][me] > 0) {
            error(write ? "wlock" : "rlock", which, write ? pthread_rwlock_wrlock(lock) : pthread_rwlock_rdlock(lock));
            break;
        }
        /* fall through */
    default:
        if (o->written[which][me] + o->read[which][me] > 0) {
            error("rwunlock", which, pthread_rwlock_unlock(lock));
            o->written[which][me] > 0 ? o->written[which][me]-- : o->read[which][me]--;
        }
    }
}

static void cond_operation(int me)
{
    int which = (int)below(CONDS), with = (int)below(MUTEXES);
    pthread_cond_t *cond = &o->conds[which];
    struct timespec time = past();
    int may_wait = o->held[with][me] > 0 || o->types[with] == PTHREAD_MUTEX_ERRORCHECK || o->robust[with];
    switch (below(5)) {
    case 0:
        error("signal", which, pthread_cond_signal(cond));
        break;
    case 1:
        error("broadcast", which, pthread_cond_broadcast(cond));
        break;
    case 2:
        if (may_wait && !o->lost[with] && o->held[with][me] < 2) {
            error("ctimed", which, pthread_cond_timedwait(cond, &o->mutexes[with], &time));
        }
        break;
    case 3:
        if (may_wait && !o->lost[with] && o->held[with][me] < 2) {
            int clock = below(4) ? CLOCK_REALTIME : CLOCK_TAI;
            error("cclock", which, pthread_cond_clockwait(cond, &o->mutexes[with], clock, &time));
        }
        break;
    default:
        error("cdestroy", which, pthread_cond_destroy(cond));
        init_cond(which);
    }
}

static void semaphore_operation(void)
{
    int which = (int)below(SEMAPHORES), value;
    sem_t *semaphore = &o->semaphores[which];
    struct timespec time = past();
    switch (below(8)) {
    case 0:
    case 1:
        failed("post", which, sem_post(semaphore));
        break;
    case 2:
        failed("semtry", which, sem_trywait(semaphore));
        break;
    case 3:
        failed("semtimed", which, sem_timedwait(semaphore, &time));
        break;
    case 4:
        failed("semclock", which, sem_clockwait(semaphore, below(4) ? CLOCK_MONOTONIC : CLOCK_TAI, &time));
        break;
    case 5:
        sem_getvalue(semaphore, &value);
        if (value > 0) failed("semwait", which, sem_wait(semaphore));
        break;
    case 6:
        failed("semdestroy", which, sem_destroy(semaphore));
        failed("seminit", which, sem_init(semaphore, 0, below(3) == 0 ? 0x7fffffff : below(2) ? 0x80000000 : below(3)));
        /* A failed initialisation leaves it as it was. */
        break;
    default:
        failed("semvalue", which, sem_getvalue(semaphore, &value));
        note("%d ", value);
    }
}

static void other_operation(int me)
{
    int result;
    switch (below(6)) {
    case 0:
        if (o->threads_of_barrier == 1) error("bwait", 0, pthread_barrier_wait(&o->barrier));
        break;
    case 1:
        error("bdestroy", 0, pthread_barrier_destroy(&o->barrier));
        o->threads_of_barrier = 1 + below(2);
        error("binit0", 0, pthread_barrier_init(&o->barrier, NULL, 0));
        error("binit", 0, pthread_barrier_init(&o->barrier, NULL, o->threads_of_barrier));
        break;
    case 2:
        error("once", once_calls, pthread_once(&o->once, once));
        note("%d ", once_calls);
        break;
    case 3:
        result = pthread_spin_trylock(&o->spin);
        error("strylock", 0, result);
        if (result == 0) o->spun_by = me;
        break;
    case 4:
        if (o->spun_by == -1) {
            error("slock", 0, pthread_spin_lock(&o->spin));
            o->spun_by = me;
        }
        break;
    default:
        if (o->spun_by == me) {
            error("sunlock", 0, pthread_spin_unlock(&o->spin));
            o->spun_by = -1;
        }
    }
}

static pthread_t threads[THREADS];

static void signal_operation(int me)
{
    int signal = any_signal(), how;
    sigset_t set;
    struct sigaction action, old;
    struct timespec now = {0, 0};
    siginfo_t info;
    union sigval value = {.sival_int = 7};
    sigemptyset(&set);
    sigaddset(&set, signal);
    switch (below(14)) {
    case 0:
    case 1:
    case 2:
        memset(&action, 0, sizeof action);
        switch (below(4)) {
        case 0: action.sa_handler = SIG_IGN; break;
        case 1: action.sa_handler = SIG_DFL; break;
        case 2: action.sa_handler = handler; break;
        default: action.sa_sigaction = handler_with_information, action.sa_flags = SA_SIGINFO;
        }
        if (below(3) == 0) action.sa_flags |= SA_RESTART;
        if (below(5) == 0) action.sa_flags |= SA_NODEFER;
        /* A handler that is used once leaves the default action, which may end the process. */
        if (below(5) == 0 && (signal == SIGCHLD || signal == SIGWINCH || signal == SIGURG))
            action.sa_flags |= SA_RESETHAND;
        if (below(2)) sigaddset(&action.sa_mask, any_signal());
        failed("sigaction", signal, sigaction(signal, &action, &old));
        note("%d,%x ", old.sa_handler == SIG_DFL ? 0 : old.sa_handler == SIG_IGN ? 1 : old.sa_handler == handler ? 2 : 3,
             (unsigned)old.sa_flags & ~0x04000000u);
        break;
    case 3: {
        void (*action)(int) = signal == SIGCHLD || below(2) ? handler : SIG_IGN;
        /* The System V variant uses the handler once. */
        void (*before)(int) = action == SIG_IGN || signal == SIGCHLD ? sysv_signal(signal, action) : ssignal(signal, action);
        note("signal%d=%d ", signal, before == SIG_DFL ? 0 : before == SIG_IGN ? 1 : before == handler ? 2 : 3);
        break;
    }
    case 4:
        /* What glibc notes for later calls of signal() before control begins is not taken over. */
        how = (int)below(2);
        if (!is_in_constructor) failed("siginterrupt", signal, siginterrupt(signal, how));
        break;
    case 5:
    case 6:
        failed("raise", signal, raise(signal));
        break;
    case 7:
        how = (int)below(THREADS);
        error("tkill", how, pthread_kill(threads[how], below(5) ? signal : below(2) ? 0 : 65));
        break;
    case 8:
        failed("kill", signal, kill(getpid(), below(6) ? signal : 65));
        break;
    case 9:
        failed("queue", signal, sigqueue(getpid(), signal, value));
        break;
    case 10:
        /* Only signals whose default action is harmless are let through. */
        if (!is_fatal(signal)) {
            error("unblock", signal, pthread_sigmask(SIG_UNBLOCK, &set, NULL));
            note("%d ", (int)handled[signal]);
            error("block", signal, pthread_sigmask(SIG_BLOCK, &set, NULL));
        }
        break;
    case 11:
        memset(&info, 0, sizeof info);
        failed("sigwait", signal, sigtimedwait(&set, &info, &now));
        note("%d ", info.si_code);
        break;
    case 12: {
        sigset_t pending, open;
        sigpending(&pending);
        sigaction(signal, NULL, &old);
        int runs = old.sa_handler != SIG_IGN && old.sa_handler != SIG_DFL && sigismember(&pending, signal);
        open = all_signals();
        sigdelset(&open, signal);
        if (runs) {
            failed("sigsuspend", signal, sigsuspend(&open));
            note("%d ", (int)handled[signal]);
        }
        break;
    }
    default:
        failed("badsignal", 0, sigaction(below(2) ? 65 : SIGKILL, &(struct sigaction){.sa_handler = handler}, NULL));
        error("badhow", 0, pthread_sigmask(17, &set, NULL));
    }
    (void)me;
    show_pending();
}

static void timer_operation(void)
{
    struct itimerval new = {{0, 0}, {0, 0}}, old;
    struct itimerspec spec = {{0, 0}, {0, 0}}, before;
    struct sigevent event = {.sigev_notify = below(3) ? SIGEV_SIGNAL : SIGEV_NONE, .sigev_signo = any_signal()};
    struct timespec soon = {.tv_nsec = 1000}, long_time = {.tv_sec = 100};
    sigset_t set;
    siginfo_t info;
    switch (below(8)) {
    case 0:
        note("alarm=%u ", alarm(below(2) ? 1000 + below(10) : 0));
        break;
    case 1:
        new.it_value.tv_sec = below(2) ? 5000 : 0;
        new.it_interval.tv_sec = (long)below(3);
        new.it_value.tv_usec = below(6) == 0 ? 1000000 : 0;
        failed("setitimer", 0, setitimer(ITIMER_REAL, &new, &old));
        break;
    case 2:
        failed("getitimer", 0, getitimer(ITIMER_REAL, &old));
        note("%d,%d ", old.it_value.tv_sec != 0, (int)old.it_interval.tv_sec);
        break;
    case 3:
        if (o->has_timer) break;
        if (below(4) == 0) event.sigev_signo = 65;
        failed("tcreate", 0, o->has_timer = timer_create(below(5) ? CLOCK_MONOTONIC : 77, &event, &o->timer));
        o->has_timer = o->has_timer == 0;
        break;
    case 4:
        if (!o->has_timer) break;
        spec.it_value.tv_sec = below(2) ? 5000 : 0;
        spec.it_interval.tv_nsec = below(4) == 0 ? 1000000000 : (long)below(2);
        failed("tset", 0, timer_settime(o->timer, 0, &spec, &before));
        break;
    case 5:
        if (!o->has_timer) break;
        failed("tget", 0, timer_gettime(o->timer, &spec));
        note("%d,%d ", spec.it_value.tv_sec != 0, timer_getoverrun(o->timer));
        break;
    case 6:
        if (!o->has_timer) break;
        failed("tdelete", 0, timer_delete(o->timer));
        o->has_timer = 0;
        break;
    default:
        /* It fires, and the signal is taken. */
        sigemptyset(&set);
        sigaddset(&set, SIGALRM);
        while (sigtimedwait(&set, NULL, &(struct timespec){0, 0}) == SIGALRM) {}
        new.it_value.tv_usec = 50;
        failed("setitimer", 1, setitimer(ITIMER_REAL, &new, NULL));
        failed("sigwait", SIGALRM, sigtimedwait(&set, &info, &long_time));
        nanosleep(&soon, NULL);
    }
}

static void thread_operation(int me)
{
    int other = (int)below(THREADS), old = 0;
    void *value;
    struct timespec time = {.tv_sec = 1};
    switch (below(5)) {
    case 0:
        if (other != 0) error("tryjoin", other, pthread_tryjoin_np(threads[other], &value));
        break;
    case 1:
        if (other != 0 && other != me) error("timedjoin", other, pthread_timedjoin_np(threads[other], &value, &time));
        break;
    case 2:
        if (me != 0) error("joinself", me, pthread_join(threads[me], &value));
        break;
    case 3:
        error("cancelstate", 0, pthread_setcancelstate(below(4) ? PTHREAD_CANCEL_ENABLE : 9, &old));
        note("%d ", old);
        break;
    default:
        error("canceltype", 0, pthread_setcanceltype(below(4) ? PTHREAD_CANCEL_DEFERRED : 9, &old));
        note("%d ", old);
    }
}

/* In a child the C library itself uses the objects. */
static void child_operation(int me)
{
    int ends[2];
    char seen[256];
    if (pipe(ends) != 0) abort();
    pid_t child = fork();
    if (child == 0) {
        size_t length = 0;
        for (int i = 0; i < MUTEXES; i++)
            if (!o->lost[i]) length += (size_t)sprintf(seen + length, "%d ", pthread_mutex_trylock(&o->mutexes[i]));
        for (int i = 0; i < RWLOCKS; i++) {
            int read = pthread_rwlock_tryrdlock(&o->rwlocks[i]);
            if (read == 0) pthread_rwlock_unlock(&o->rwlocks[i]);
            length += (size_t)sprintf(seen + length, "%d%d ", read, pthread_rwlock_trywrlock(&o->rwlocks[i]));
        }
        for (int i = 0; i < SEMAPHORES; i++)
            length += (size_t)sprintf(seen + length, "%d ", sem_trywait(&o->semaphores[i]));
        for (int i = 0; i < CONDS; i++) length += (size_t)sprintf(seen + length, "%d ", pthread_cond_signal(&o->conds[i]));
        if (o->threads_of_barrier == 1)
            length += (size_t)sprintf(seen + length, "%d ", pthread_barrier_wait(&o->barrier));
        length += (size_t)sprintf(seen + length, "%d ", pthread_once(&o->once, once));
        length += (size_t)sprintf(seen + length, "%d ", pthread_spin_trylock(&o->spin));
        (void)!write(ends[1], seen, length);
        _exit(0);
    }
    close(ends[1]);
    ssize_t length = read(ends[0], seen, sizeof seen - 1);
    close(ends[0]);
    while (waitpid(child, NULL, 0) < 0 && errno == EINTR) {}
    note("child %.*s", (int)(length < 0 ? 0 : length), seen);
    (void)me;
}

/* The child's end may or may not be seen as a signal. */
static void forget_children_signals(void)
{
    sigset_t set;
    struct timespec now = {0, 0};
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    while (sigtimedwait(&set, NULL, &now) == SIGCHLD) {}
}

static void turn(int me, int operations, int may_fork)
{
    while (operations-- > 0) {
        unsigned kind = below(22);
        if (kind < 6) mutex_operation(me);
        else if (kind < 9) rwlock_operation(me);
        else if (kind < 11) cond_operation(me);
        else if (kind < 13) semaphore_operation();
        else if (kind < 15) other_operation(me);
        else if (kind < 19) signal_operation(me);
        else if (kind < 20) timer_operation();
        else if (kind < 21) thread_operation(me);
        else if (may_fork && below(6) == 0) {
            forget_children_signals();
            child_operation(me);
            forget_children_signals();
        }
    }
}

static sem_t begins[THREADS], ends;
static int operations_of_turn;

static void *other_thread(void *number)
{
    int me = (int)(long)number;
    for (;;) {
        while (sem_wait(&begins[me]) != 0) {}
        if (operations_of_turn < 0) return NULL;
        turn(me, operations_of_turn, 0);
        sem_post(&ends);
    }
}

/* Takes back what a sequence did to the process. */
static void reset(void)
{
    struct timespec now = {0, 0};
    sigset_t set = all_signals();
    if (o->has_timer) timer_delete(o->timer);
    alarm(0);
    while (sigtimedwait(&set, NULL, &now) > 0) {}
    for (int i = 0; i < HOW_MANY; i++) {
        signal(SIGNALS[i], SIG_IGN);
        signal(SIGNALS[i], SIG_DFL);
        handled[SIGNALS[i]] = 0;
    }
}

static unsigned long first;

__attribute__((constructor)) static void constructor(int count, char **arguments)
{
    sigset_t set = all_signals();
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    if (count < 2) return;
    first = strtoul(arguments[1], NULL, 10);
    threads[0] = pthread_self();
    for (int i = 1; i < THREADS; i++) threads[i] = threads[0];
    seed(first);
    init_objects();
    is_in_constructor = 1;
    for (int i = 0; i < 12; i++) {
        switch (below(6)) {
        case 0:
        case 1: mutex_operation(0); break;
        case 2: rwlock_operation(0); break;
        case 3: cond_operation(0); break;
        case 4: semaphore_operation(); break;
        default: below(2) ? other_operation(0) : signal_operation(0);
        }
    }
    is_in_constructor = 0;
}

int run(int count, char **arguments)
{
    unsigned long sequences = count > 2 ? strtoul(arguments[2], NULL, 10) : 1;
    sem_init(&ends, 0, 0);
    for (int i = 1; i < THREADS; i++) {
        sem_init(&begins[i], 0, 0);
        pthread_create(&threads[i], NULL, other_thread, (void *)(long)i);
    }
    for (unsigned long n = 0; n < sequences; n++) {
        if (n > 0) {
            seed(first + n);
            init_objects();
        }
        for (int i = 0; i < 8; i++) {
            int me = (int)below(THREADS);
            note("[%d] ", me);
            operations_of_turn = 1 + (int)below(6);
            if (me == 0) {
                turn(0, operations_of_turn, 1);
            } else {
                sem_post(&begins[me]);
                while (sem_wait(&ends) != 0) {}
            }
        }
        reset();
        /* What the other threads have pending is taken by them. */
        printf("%lu: %.*s\n", first + n, (int)used, text);
        used = 0;
    }
    operations_of_turn = -1;
    for (int i = 1; i < THREADS; i++) {
        sem_post(&begins[i]);
        pthread_join(threads[i], NULL);
    }
    return 0;
}
