/* Hashes memory that a program can read without having written it, after each of many operations.
 *
 * Each probe is an operation and a kind of memory. The hashes are reported at the end, when nothing is left to probe: as the addresses of
 * mutexes that are locked, so that they are part of the trace in every build, and as lines of a file, so that a difference has a name.
 *
 * usage: probes FILE [fail] [without MEMORY]... [dump LABEL NTH]
 *
 *   fail             exit with status 1 in some schedules, for a search to find
 *   without MEMORY   leave out this kind of memory
 *   dump LABEL NTH   also write the bytes of the NTH probe with this label to FILE.dump, after their address and number
 *
 * Compiles as C and as C++; in C++ there is one more operation, an exception. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <arpa/inet.h>
#include <cpuid.h>
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <iconv.h>
#include <immintrin.h>
#include <link.h>
#include <locale.h>
#include <malloc.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <pwd.h>
#include <regex.h>
#include <sched.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/times.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <wchar.h>

#define PLAIN __attribute__((noinline, no_sanitize("thread")))

/* ---- probes ---- */

#define DEPTH (160 << 10)
#define MOST 8192

static struct probe {
    const char *thread, *operation, *memory;
    uint64_t hash;
} probes[MOST];
static int count;

static __thread const char *thread_name;
static __thread const char *operation;

/* The probe whose bytes are wanted, and which of those with this label. They are kept here until the end. */
static const char *dumped;
static int dumped_nth = 1;
static const void *dump_start;
static size_t dump_size;
static char dump[1 << 20];

/* Compares without the C library: whatever that leaves on the stack would be seen. */
static PLAIN int is_same(const char *a, const char *b)
{
    while (*a && *a == *b)
        a++, b++;
    return *a == *b;
}

static PLAIN int is_dumped(const struct probe *probe)
{
    const char *parts[] = {probe->thread, "/", probe->operation, "/", probe->memory};
    const char *at = dumped;
    for (int i = 0; i < 5; i++)
        for (const char *part = parts[i]; *part; part++)
            if (*part != *at++)
                return 0;
    return *at == 0;
}

static PLAIN uint64_t hash(const void *memory, size_t size)
{
    const uint64_t *words = (const uint64_t *)memory;
    uint64_t lanes[4] = {1, 2, 3, 4};
    size_t i = 0;
    for (; i + 4 <= size / 8; i += 4)
        for (int lane = 0; lane < 4; lane++)
            lanes[lane] = (lanes[lane] ^ words[i + lane]) * 0x9e3779b97f4a7c15u + (lanes[lane] >> 29);
    for (; i < size / 8; i++)
        lanes[0] = (lanes[0] ^ words[i]) * 0x9e3779b97f4a7c15u + (lanes[0] >> 29);
    for (i *= 8; i < size; i++)
        lanes[1] = (lanes[1] ^ ((const unsigned char *)memory)[i]) * 0x9e3779b97f4a7c15u + (lanes[1] >> 29);
    return lanes[0] ^ (lanes[1] << 1) ^ (lanes[2] << 2) ^ (lanes[3] << 3) ^ (lanes[2] >> 31) ^ (lanes[3] >> 30);
}

/* Kinds of memory that are not probed. */
static const char *left_out[8];
static int left_out_count;

/* Adds a probe of this memory. */
static PLAIN void note(const char *memory, const void *start, size_t size)
{
    for (int i = 0; i < left_out_count; i++)
        if (is_same(memory, left_out[i]))
            return;
    int at = __atomic_fetch_add(&count, 1, __ATOMIC_RELAXED);
    if (at >= MOST)
        _exit(70);
    probes[at].thread = thread_name;
    probes[at].operation = operation;
    probes[at].memory = memory;
    probes[at].hash = hash(start, size);
    if (dumped && is_dumped(&probes[at]) && --dumped_nth == 0) {
        dump_start = start;
        dump_size = size < sizeof dump ? size : sizeof dump;
        for (size_t i = 0; i < dump_size; i++)
            dump[i] = ((const char *)start)[i];
    }
}

/* Gives the unused stack a known content: what differs after one operation must not show after the next. */
static PLAIN void wipe(void)
{
    char *frame = (char *)__builtin_frame_address(0);
    volatile char *low = frame - DEPTH - 4096;
    for (; low < frame - 256; low += 8)
        *(volatile uint64_t *)low = 0;
}

static PLAIN void note_stack(void)
{
    char *frame = (char *)__builtin_frame_address(0);
    note("stack", frame - DEPTH, DEPTH - 512);
}

extern __attribute__((weak)) const ptrdiff_t __rseq_offset;

/* How much thread-local storage there is in front of a thread's descriptor. */
static size_t tls_size;

static PLAIN int measure_tls(struct dl_phdr_info *info, size_t size, void *unused)
{
    (void)size, (void)unused;
    size_t distance = (size_t)((char *)pthread_self() - (char *)info->dlpi_tls_data);
    if (info->dlpi_tls_data && distance < 4096 && distance > tls_size)
        tls_size = distance;
    return 0;
}

static PLAIN void note_thread(void)
{
    enum { TID = 0x2d0, DESCRIPTOR = 0x900, GUARD = 0x28 };
    char *self = (char *)pthread_self();
    size_t rseq = &__rseq_offset && __rseq_offset > 0 ? (size_t)__rseq_offset : DESCRIPTOR;
    if (rseq > DESCRIPTOR)
        rseq = DESCRIPTOR;
    note("tls", self - tls_size, tls_size);
    note("tcb", self, GUARD);
    note("stack guard", self + GUARD, 8);
    note("pointer guard", self + GUARD + 8, 8);
    note("descriptor", self + GUARD + 16, TID - GUARD - 16);
    note("tid", self + TID, 8);
    note("rest of descriptor", self + TID + 8, rseq - TID - 8);
    if (&__rseq_offset)
        note("rseq", self + __rseq_offset, 32);
}

/* Memory that malloc hands out uninitialised, with what it has behind it. */
static PLAIN void note_malloc(void)
{
    static const size_t sizes[] = {8, 24, 40, 100, 500, 1000, 3000, 2000, 20000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        void *block = malloc(sizes[i]);
        note("malloc", block, malloc_usable_size(block));
        free(block);
    }
}

static PLAIN void note_heap(void)
{
    static char *start;
    if (!start) {
        struct mallinfo2 info = mallinfo2();
        start = (char *)sbrk(0) - info.arena;
    }
    note("heap", start, (size_t)((char *)sbrk(0) - start));
}

static PLAIN int note_module(struct dl_phdr_info *info, size_t size, void *unused)
{
    (void)size, (void)unused;
    /* The loader's own data has the processor's number and how long it took, and no program comes by there. */
    static const char *const known[] = {"libc.so.6", "libm.so.6", "libgcc_s.so.1"};
    const char *name = strrchr(info->dlpi_name, '/');
    const char *label = NULL;
    for (size_t i = 0; name && i < sizeof known / sizeof *known; i++)
        if (strcmp(name + 1, known[i]) == 0)
            label = known[i];
    for (int i = 0; label && i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        if (header->p_type == PT_LOAD && header->p_flags & PF_W)
            note(label, (char *)info->dlpi_addr + header->p_vaddr, header->p_memsz);
    }
    return 0;
}

extern char **environ;
extern void *__libc_stack_end;

static PLAIN void note_process(void)
{
    /* The kernel leaves a null word at the end of the stack; the program's name is in front of it. */
    const char *name = (const char *)getauxval(AT_EXECFN);
    note("arguments", __libc_stack_end, (size_t)(name + strlen(name) + 1 - (char *)__libc_stack_end));
    note("random bytes", (void *)getauxval(AT_RANDOM), 16);
    char **end = environ;
    while (*end)
        note("environment", *end, strlen(*end)), end++;
    ElfW(auxv_t) *vector = (ElfW(auxv_t) *)(end + 1);
    for (; vector->a_type != AT_NULL; vector++) {
        static char names[64][16];
        int kind = (int)vector->a_type & 63;
        snprintf(names[kind], sizeof *names, "auxv %d", kind);
        note(names[kind], &vector->a_un.a_val, 8);
    }
    dl_iterate_phdr(note_module, NULL);
}

/* ---- operations ---- */

static void nothing(void) {}

static void mutex(void)
{
    pthread_mutex_t mutex;
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&mutex, &attributes);
    pthread_mutex_lock(&mutex);
    pthread_mutex_trylock(&mutex);
    note("mutex", &mutex, sizeof mutex);
    pthread_mutex_unlock(&mutex);
    pthread_mutex_unlock(&mutex);
    pthread_mutex_destroy(&mutex);
}

static void robust(void)
{
    static pthread_mutex_t mutexes[3];
    pthread_mutex_t *mutex = &mutexes[thread_name[0] - 'a'];
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(mutex, &attributes);
    pthread_mutex_lock(mutex);
    note("mutex", mutex, sizeof *mutex);
    pthread_mutex_unlock(mutex);
    pthread_mutex_destroy(mutex);
}

static struct timespec soon(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    now.tv_nsec += 1000;
    if (now.tv_nsec >= 1000000000)
        now.tv_nsec -= 1000000000, now.tv_sec++;
    return now;
}

static void condition(void)
{
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
    struct timespec limit = soon(CLOCK_REALTIME);
    pthread_mutex_lock(&mutex);
    pthread_cond_timedwait(&condition, &mutex, &limit);
    pthread_cond_signal(&condition);
    pthread_cond_broadcast(&condition);
    note("condition", &condition, sizeof condition);
    pthread_mutex_unlock(&mutex);
    pthread_cond_destroy(&condition);
}

static void timed_lock(void)
{
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    struct timespec limit = soon(CLOCK_REALTIME);
    pthread_mutex_lock(&mutex);
    pthread_mutex_timedlock(&mutex, &limit);
    pthread_mutex_unlock(&mutex);
}

static void rwlock(void)
{
    pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
    pthread_rwlock_rdlock(&lock);
    pthread_rwlock_unlock(&lock);
    pthread_rwlock_wrlock(&lock);
    note("rwlock", &lock, sizeof lock);
    pthread_rwlock_unlock(&lock);
    pthread_rwlock_destroy(&lock);
}

static void spin(void)
{
    pthread_spinlock_t lock;
    pthread_spin_init(&lock, 0);
    pthread_spin_lock(&lock);
    pthread_spin_unlock(&lock);
    pthread_spin_destroy(&lock);
}

static void semaphore(void)
{
    sem_t semaphore;
    memset(&semaphore, 0, sizeof semaphore);
    sem_init(&semaphore, 0, 1);
    sem_wait(&semaphore);
    struct timespec limit = soon(CLOCK_REALTIME);
    sem_timedwait(&semaphore, &limit);
    sem_post(&semaphore);
    note("semaphore", &semaphore, sizeof semaphore);
    sem_destroy(&semaphore);
}

static void barrier(void)
{
    pthread_barrier_t barrier;
    pthread_barrier_init(&barrier, NULL, 1);
    pthread_barrier_wait(&barrier);
    pthread_barrier_destroy(&barrier);
}

static void once(void)
{
    pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, nothing);
}

static void ignore(void *unused) { (void)unused; }

static void key(void)
{
    pthread_key_t key;
    pthread_key_create(&key, ignore);
    pthread_setspecific(key, &key);
    pthread_getspecific(key);
    pthread_key_delete(key);
}

static void sleeps(void)
{
    struct timespec moment = {0, 1000};
    nanosleep(&moment, NULL);
    clock_nanosleep(CLOCK_MONOTONIC, 0, &moment, NULL);
    usleep(1);
    sched_yield();
}

static void event_counter(void)
{
    int fd = eventfd(1, 0);
    uint64_t value;
    if (read(fd, &value, sizeof value) < 0 || write(fd, &value, sizeof value) < 0)
        _exit(72);
    close(fd);
}

static void pipes(void)
{
    int ends[2];
    char buffer[64];
    if (pipe(ends) < 0 || write(ends[1], "some text", 9) != 9)
        _exit(72);
    struct pollfd polled = {ends[0], POLLIN, 0};
    poll(&polled, 1, -1);
    fd_set set;
    FD_ZERO(&set);
    FD_SET(ends[0], &set);
    struct timeval limit = {0, 1};
    select(ends[0] + 1, &set, NULL, NULL, &limit);
    if (read(ends[0], buffer, sizeof buffer) != 9)
        _exit(72);
    poll(&polled, 1, 1);
    close(ends[0]), close(ends[1]);
}

static void epoll(void)
{
    int fd = eventfd(1, 0), all = epoll_create1(0);
    struct epoll_event wanted = {EPOLLIN, {.fd = fd}}, got[4];
    memset(got, 0, sizeof got);
    epoll_ctl(all, EPOLL_CTL_ADD, fd, &wanted);
    epoll_wait(all, got, 4, -1);
    note("epoll events", got, sizeof got);
    close(fd), close(all);
}

static void timer_descriptor(void)
{
    int fd = timerfd_create(CLOCK_MONOTONIC, 0);
    struct itimerspec when = {{0, 0}, {0, 1000}}, left;
    uint64_t times;
    timerfd_settime(fd, 0, &when, NULL);
    timerfd_gettime(fd, &left);
    note("timer", &left, sizeof left);
    if (read(fd, &times, sizeof times) != sizeof times)
        _exit(72);
    close(fd);
}

static void socket_pair(void)
{
    int ends[2];
    char buffer[16];
    socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
    send(ends[0], "text", 4, 0);
    recv(ends[1], buffer, sizeof buffer, 0);
    close(ends[0]), close(ends[1]);
}

/* The whole of a handler's arguments. */
static PLAIN void note_frame(siginfo_t *info, ucontext_t *context)
{
    note("siginfo", info, sizeof *info);
    note("general registers", context->uc_mcontext.gregs, sizeof context->uc_mcontext.gregs);
    note("ucontext", context, offsetof(ucontext_t, uc_mcontext));
    note("signal mask", &context->uc_sigmask, 8);
    const char *state = (const char *)context->uc_mcontext.fpregs;
    enum { LEGACY = 512, RESERVED = 464, HEADER = 64, MAGIC = 0x46505853 };
    note("x87 and SSE state", state, 416);
    note("reserved for software", state + 416, LEGACY - 416);
    uint32_t magic, extended;
    memcpy(&magic, state + RESERVED, sizeof magic);
    memcpy(&extended, state + RESERVED + 4, sizeof extended);
    if (magic == MAGIC) {
        note("XSAVE header", state + LEGACY, HEADER);
        note("extended state", state + LEGACY + HEADER, extended - LEGACY - HEADER);
    }
}

static void handler(int number, siginfo_t *info, void *context)
{
    (void)number;
    note_frame(info, (ucontext_t *)context);
}

static void handle(int number, int flags)
{
    struct sigaction action, before;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = handler;
    action.sa_flags = SA_SIGINFO | flags;
    sigaction(number, &action, &before);
    note("action", &before, sizeof before);
}

static void signal_raised(void)
{
    handle(SIGUSR1, 0);
    raise(SIGUSR1);
}

static void signal_queued(void)
{
    handle(SIGUSR2, 0);
    union sigval value;
    memset(&value, 0, sizeof value);
    value.sival_int = 17;
    pthread_sigqueue(pthread_self(), SIGUSR2, value);
}

static void signal_on_other_stack(void)
{
    enum { SIZE = 64 << 10 };
    char *memory = (char *)malloc(SIZE);
    memset(memory, 0, SIZE);
    stack_t stack, before;
    memset(&stack, 0, sizeof stack);
    stack.ss_sp = memory;
    stack.ss_size = SIZE;
    sigaltstack(&stack, &before);
    handle(SIGRTMIN + 3, SA_ONSTACK);
    pthread_kill(pthread_self(), SIGRTMIN + 3);
    note("alternate stack", memory, SIZE);
    stack.ss_flags = SS_DISABLE;
    sigaltstack(&stack, &before);
    note("stack_t", &before, sizeof before);
    free(memory);
}

static __thread sigjmp_buf after_fault;

static void fault_handler(int number, siginfo_t *info, void *context)
{
    (void)number;
    note_frame(info, (ucontext_t *)context);
    siglongjmp(after_fault, 1);
}

static pthread_mutex_t fault_mutex = PTHREAD_MUTEX_INITIALIZER;

static void fault(void)
{
    struct sigaction action, before;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = fault_handler;
    action.sa_flags = SA_SIGINFO;
    pthread_mutex_lock(&fault_mutex);
    sigaction(SIGSEGV, &action, &before);
    if (sigsetjmp(after_fault, 1) == 0)
        *(volatile int *)8 = 1;
    sigaction(SIGSEGV, &before, NULL);
    pthread_mutex_unlock(&fault_mutex);
}

struct taker {
    sem_t ready, done;
};

static void *take_signal(void *argument)
{
    struct taker *taker = (struct taker *)argument;
    thread_name = "taker", operation = "signal to other";
    wipe();
    sem_post(&taker->ready);
    while (sem_wait(&taker->done) != 0) {
    }
    note_stack();
    note_thread();
    return NULL;
}

static void signal_to_other(void)
{
    struct taker taker;
    pthread_t thread;
    handle(SIGUSR1, 0);
    sem_init(&taker.ready, 0, 0);
    sem_init(&taker.done, 0, 0);
    pthread_create(&thread, NULL, take_signal, &taker);
    sem_wait(&taker.ready);
    pthread_kill(thread, SIGUSR1);
    sem_post(&taker.done);
    pthread_join(thread, NULL);
}

static void signal_by_timer(void)
{
    /* A signal of its own: another thread would take one that all wait for. */
    int number = SIGRTMIN + 5 + thread_name[0] - 'a';
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, number);
    struct sigevent event;
    memset(&event, 0, sizeof event);
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = number;
    timer_t timer;
    timer_create(CLOCK_MONOTONIC, &event, &timer);
    struct itimerspec when = {{0, 0}, {0, 1000}};
    timer_settime(timer, 0, &when, NULL);
    siginfo_t info;
    memset(&info, 0, sizeof info);
    sigwaitinfo(&set, &info);
    note("siginfo", &info, sizeof info);
    timer_delete(timer);
}

static void signal_descriptor(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGRTMIN + 8);
    int fd = signalfd(-1, &set, SFD_NONBLOCK);
    struct signalfd_siginfo info;
    memset(&info, 0, sizeof info);
    pthread_kill(pthread_self(), SIGRTMIN + 8);
    if (read(fd, &info, sizeof info) > 0)
        note("signalfd_siginfo", &info, sizeof info);
    close(fd);
    struct timespec none = {0, 0};
    sigtimedwait(&set, NULL, &none);
}

static void *probe_thread(void *name)
{
    thread_name = (const char *)name, operation = "birth";
    note_stack();
    note_thread();
    return NULL;
}

static void *exit_thread(void *unused)
{
    (void)unused;
    thread_name = "exits", operation = "pthread_exit";
    note_stack();
    pthread_exit(NULL);
}

static void *wait_forever(void *unused)
{
    for (;;)
        pause();
    return unused;
}

static void threads(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, probe_thread, (void *)"child");
    pthread_join(thread, NULL);
}

static void thread_exits(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, exit_thread, NULL);
    pthread_join(thread, NULL);
}

static void thread_cancelled(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, wait_forever, NULL);
    pthread_cancel(thread);
    pthread_join(thread, NULL);
}

static void thread_attributes(void)
{
    pthread_attr_t attributes;
    memset(&attributes, 0, sizeof attributes);
    pthread_getattr_np(pthread_self(), &attributes);
    note("attributes", &attributes, sizeof attributes);
    pthread_attr_destroy(&attributes);
    char name[16] = "";
    pthread_getname_np(pthread_self(), name, sizeof name);
    cpu_set_t set;
    CPU_ZERO(&set);
    pthread_getaffinity_np(pthread_self(), sizeof set, &set);
    struct sched_param parameter;
    int policy;
    pthread_getschedparam(pthread_self(), &policy, &parameter);
    clockid_t clock = 0;
    pthread_getcpuclockid(pthread_self(), &clock);
    note("processor clock", &clock, sizeof clock);
}

static void jumps(void)
{
    jmp_buf buffer;
    memset(&buffer, 0, sizeof buffer);
    if (setjmp(buffer) == 0) {
        note("jmp_buf", &buffer, sizeof buffer);
        longjmp(buffer, 1);
    }
    sigjmp_buf with_mask;
    memset(&with_mask, 0, sizeof with_mask);
    if (sigsetjmp(with_mask, 1) == 0)
        siglongjmp(with_mask, 1);
    note("sigjmp_buf", &with_mask, sizeof with_mask);
}

static void forks(void)
{
    int status;
    pid_t child = fork();
    if (child == 0)
        _exit(3);
    waitpid(child, &status, 0);
    note("status", &status, sizeof status);
}

static void spawns(void)
{
    pid_t child = 0;
    static char name[] = "true";
    char *arguments[] = {name, NULL};
    if (posix_spawnp(&child, "true", NULL, NULL, arguments, environ) == 0) {
        siginfo_t info;
        memset(&info, 0, sizeof info);
        waitid(P_PID, (id_t)child, &info, WEXITED);
        /* Times of processes are the kernel's. */
        note("siginfo", &info, offsetof(siginfo_t, si_utime));
    }
}

static void command(void)
{
    if (system("true") != 0)
        _exit(72);
}

static void library(void)
{
    void *handle = dlopen("libresolv.so.2", RTLD_NOW);
    if (handle) {
        dlsym(handle, "res_init");
        dlclose(handle);
    }
    handle = dlopen("libm.so.6", RTLD_LAZY);
    if (handle) {
        double (*sine)(double);
        *(void **)&sine = dlsym(handle, "sin");
        volatile double value = sine(0.5);
        (void)value;
        dlclose(handle);
    }
    dlopen("/nowhere.so", RTLD_NOW);
    dlerror();
}

static void floating_point(void)
{
    char text[512];
    snprintf(text, sizeof text, "%f %g %a %Lf", 1.0 / 3, 1e300, 0.1, (long double)7 / 3);
    volatile double value = strtod("3.14159265358979323846e-17", NULL);
    volatile long double more = strtold("3.14159265358979323846e-1700", NULL);
    (void)value, (void)more;
    snprintf(text, sizeof text, "%.300f", 1e-200);
}

__attribute__((target("avx2"))) static void avx(void)
{
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2"))
        return;
    static long long sums[4];
    __m256i sum = _mm256_set1_epi64x(0x1234567);
    for (int i = 0; i < 10; i++)
        sum = _mm256_add_epi64(sum, _mm256_slli_epi64(sum, 3));
    _mm256_storeu_si256((__m256i *)sums, sum);
    _mm256_zeroupper();
}

/* Leaves registers that only AVX-512 has with values, and upper halves in use. */
__attribute__((target("avx512f"))) static void avx512(void)
{
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx512f"))
        return;
    __asm__ volatile("movl $0x1234567, %%eax\n\tvpbroadcastd %%eax, %%zmm17\n\tvpbroadcastd %%eax, %%zmm31\n\t"
                     "kmovw %%eax, %%k3\n\tvpbroadcastd %%eax, %%zmm5" ::: "eax", "xmm5");
    signal_raised();
    __asm__ volatile("vzeroupper");
    signal_raised();
    __asm__ volatile("vpxord %%zmm17, %%zmm17, %%zmm17\n\tvpxord %%zmm31, %%zmm31, %%zmm31\n\tkxorw %%k3, %%k3, %%k3" ::: "memory");
    signal_raised();
}

static PLAIN void sse(void)
{
    static char from[1 << 16], to[1 << 16];
    memcpy(to, from, sizeof to);
    memmove(to + 3, to, 1000);
    memset(to, 1, sizeof to);
    volatile size_t length = strlen(to + 100) + (size_t)memcmp(from, to, 3000);
    (void)length;
}

static PLAIN int compare(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

static PLAIN void sorting(void)
{
    int *numbers = (int *)malloc(2000 * sizeof *numbers);
    for (int i = 0; i < 2000; i++)
        numbers[i] = (i * 7919) % 2000;
    qsort(numbers, 2000, sizeof *numbers, compare);
    qsort(numbers, 100, sizeof *numbers, compare);
    free(numbers);
}

static void names(void)
{
    struct addrinfo hints, *found = NULL;
    memset(&hints, 0, sizeof hints);
    hints.ai_flags = AI_NUMERICHOST;
    hints.ai_socktype = SOCK_STREAM;
    if (getaddrinfo("127.0.0.1", "80", &hints, &found) == 0) {
        note("addrinfo", found, malloc_usable_size(found));
        freeaddrinfo(found);
    }
    char buffer[1024];
    struct passwd entry, *got;
    memset(&entry, 0, sizeof entry);
    getpwuid_r(0, &entry, buffer, sizeof buffer, &got);
    note("passwd", &entry, sizeof entry);
}

static void addresses(void)
{
    struct addrinfo hints, *found = NULL;
    memset(&hints, 0, sizeof hints);
    hints.ai_socktype = SOCK_STREAM;
    if (getaddrinfo("localhost", "80", &hints, &found) == 0) {
        note("address", found->ai_addr, found->ai_addrlen);
        freeaddrinfo(found);
    }
}

static void dates(void)
{
    time_t now = time(NULL);
    struct tm broken;
    memset(&broken, 0, sizeof broken);
    localtime_r(&now, &broken);
    note("tm", &broken, sizeof broken);
    gmtime_r(&now, &broken);
    char text[128];
    strftime(text, sizeof text, "%c", &broken);
    mktime(&broken);
    struct timeval day;
    gettimeofday(&day, NULL);
    note("timeval", &day, sizeof day);
}

static void processor_time(void)
{
    clock_t used = clock();
    note("clock", &used, sizeof used);
    struct timespec now;
    static const clockid_t clocks[] = {CLOCK_PROCESS_CPUTIME_ID, CLOCK_THREAD_CPUTIME_ID, CLOCK_BOOTTIME,
                                       CLOCK_MONOTONIC_RAW, CLOCK_MONOTONIC_COARSE, CLOCK_REALTIME_COARSE, CLOCK_TAI};
    for (size_t i = 0; i < sizeof clocks / sizeof *clocks; i++) {
        clock_gettime(clocks[i], &now);
        note("clock_gettime", &now, sizeof now);
    }
}

static void expressions(void)
{
    regex_t expression;
    memset(&expression, 0, sizeof expression);
    regcomp(&expression, "^(a|b)*c[d-f]+$", REG_EXTENDED);
    regmatch_t match[4];
    regexec(&expression, "ababcdef", 4, match, 0);
    note("matches", match, sizeof match);
    regfree(&expression);
}

static void conversion(void)
{
    iconv_t to = iconv_open("UTF-16LE", "UTF-8");
    if (to != (iconv_t)-1) {
        char in[] = "text", out[64], *from = in, *end = out;
        size_t left = 4, room = sizeof out;
        iconv(to, &from, &left, &end, &room);
        iconv_close(to);
    }
    setlocale(LC_ALL, "C");
    wchar_t wide[16];
    mbstowcs(wide, "text", 16);
}

static void files(void)
{
    struct stat status;
    memset(&status, 0, sizeof status);
    stat("/etc/passwd", &status);
    note("stat", &status, sizeof status);
    FILE *file = fopen("/etc/passwd", "r");
    if (file) {
        char line[256];
        if (fgets(line, sizeof line, file))
            note("FILE", file, sizeof *file);
        fclose(file);
    }
    DIR *directory = opendir("/etc");
    if (directory) {
        struct dirent *entry = readdir(directory);
        note("dirent", entry, entry->d_reclen);
        closedir(directory);
    }
    FILE *null = fopen("/dev/null", "w");
    fprintf(null, "%d %s %p\n", 1, "text", (void *)null);
    fclose(null);
    char path[256];
    if (!getcwd(path, sizeof path))
        _exit(72);
}

/* The first use of a FILE allocates its buffer, and the C library looks at the file for that. */
static void streams(void)
{
    printf("%d %s\n", 17, "text");
    puts("text");
    fprintf(stderr, "%s", "");
    FILE *file = fdopen(dup(1), "w");
    fprintf(file, "%d\n", 17);
    fclose(file);
    file = fdopen(dup(0), "r");
    fgetc(file);
    fclose(file);
    int ends[2];
    if (pipe(ends) < 0)
        _exit(72);
    /* A FILE of a pipe would change how all later system calls are made. */
    const int fds[] = {0, 1, 2, ends[0]};
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++) {
        int fd = fds[i];
        struct stat status;
        memset(&status, 0, sizeof status);
        fstat(fd, &status);
        note("fstat", &status, sizeof status);
        memset(&status, 0, sizeof status);
        fstatat(fd, "", &status, AT_EMPTY_PATH);
        note("fstatat", &status, sizeof status);
        struct statx extended;
        memset(&extended, 0, sizeof extended);
        statx(fd, "", AT_EMPTY_PATH, STATX_ALL, &extended);
        note("statx", &extended, sizeof extended);
    }
    close(ends[0]), close(ends[1]);
}

static void machine(void)
{
    struct utsname name;
    memset(&name, 0, sizeof name);
    uname(&name);
    note("utsname", &name, sizeof name);
    char host[65];
    memset(host, 0, sizeof host);
    gethostname(host, sizeof host);
    long pages = sysconf(_SC_NPROCESSORS_ONLN);
    note("processors", &pages, sizeof pages);
    struct rlimit limit;
    getrlimit(RLIMIT_STACK, &limit);
    note("rlimit", &limit, sizeof limit);
}

static void current_processor(void)
{
    int processor = sched_getcpu();
    note("sched_getcpu", &processor, sizeof processor);
    unsigned where = 0, node = 0;
    getcpu(&where, &node);
    note("getcpu", &where, sizeof where);
}

static void usage(void)
{
    struct rusage usage;
    memset(&usage, 0, sizeof usage);
    getrusage(RUSAGE_SELF, &usage);
    note("rusage", &usage, sizeof usage);
    struct tms used;
    memset(&used, 0, sizeof used);
    clock_t since = times(&used);
    note("tms", &used, sizeof used);
    note("times", &since, sizeof since);
}

static void identity(void)
{
    pid_t ids[] = {getpid(), getppid(), gettid(), getpgrp(), getsid(0)};
    note("ids", ids, sizeof ids);
}

static void random_numbers(void)
{
    uint64_t numbers[4] = {(uint64_t)rand(), (uint64_t)random(), (uint64_t)lrand48(), 0};
    if (getentropy(&numbers[3], 8) != 0)
        _exit(72);
    note("random numbers", numbers, sizeof numbers);
    /* In the current directory: other runs with the same seed want the same name. */
    char name[] = "probesXXXXXX";
    int file = mkstemp(name);
    close(file);
    unlink(name);
    note("temporary name", name, sizeof name);
}

static void call_stack(void)
{
    void *frames[32];
    memset(frames, 0, sizeof frames);
    int found = backtrace(frames, 32);
    note("backtrace", frames, (size_t)found * sizeof *frames);
}

static void memory(void)
{
    void *blocks[40];
    for (int i = 0; i < 40; i++)
        blocks[i] = malloc((size_t)i * 100 + 8);
    for (int i = 0; i < 40; i += 2)
        free(blocks[i]);
    for (int i = 0; i < 40; i += 2)
        blocks[i] = malloc((size_t)i * 90 + 8);
    for (int i = 0; i < 40; i++) {
        note("block", blocks[i], malloc_usable_size(blocks[i]));
        free(blocks[i]);
    }
    void *mapped = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    note("mapping address", &mapped, sizeof mapped);
    munmap(mapped, 1 << 20);
    free(memset(malloc(300000), 1, 300000));
    malloc_trim(0);
}

#ifdef __cplusplus
#include <stdexcept>
#include <string>
static void exception(void)
{
    try {
        throw std::runtime_error("a reason that is too long for the string's own room, so that it is on the heap");
    } catch (const std::exception &error) {
        note("exception", &error, sizeof(std::runtime_error));
    }
}
#endif

#define OPERATION(name) {#name, name}
static const struct {
    const char *name;
    void (*run)(void);
} operations[] = {
    OPERATION(nothing),
    OPERATION(mutex),
    OPERATION(robust),
    OPERATION(condition),
    OPERATION(timed_lock),
    OPERATION(rwlock),
    OPERATION(spin),
    OPERATION(semaphore),
    OPERATION(barrier),
    OPERATION(once),
    OPERATION(key),
    OPERATION(sleeps),
    OPERATION(event_counter),
    OPERATION(pipes),
    OPERATION(epoll),
    OPERATION(timer_descriptor),
    OPERATION(socket_pair),
    OPERATION(signal_raised),
    OPERATION(signal_queued),
    OPERATION(signal_on_other_stack),
    OPERATION(signal_to_other),
    OPERATION(signal_by_timer),
    OPERATION(signal_descriptor),
    OPERATION(fault),
    OPERATION(threads),
    OPERATION(thread_exits),
    OPERATION(thread_cancelled),
    OPERATION(thread_attributes),
    OPERATION(jumps),
    OPERATION(forks),
    OPERATION(spawns),
    OPERATION(command),
    OPERATION(library),
    OPERATION(floating_point),
    OPERATION(sse),
    OPERATION(avx),
    OPERATION(avx512),
    OPERATION(sorting),
    OPERATION(names),
    OPERATION(addresses),
    OPERATION(dates),
    OPERATION(processor_time),
    OPERATION(expressions),
    OPERATION(conversion),
    OPERATION(files),
    OPERATION(streams),
    OPERATION(machine),
    OPERATION(current_processor),
    OPERATION(usage),
    OPERATION(identity),
    OPERATION(random_numbers),
    OPERATION(call_stack),
    OPERATION(memory),
#ifdef __cplusplus
    OPERATION(exception),
#endif
    OPERATION(nothing),
};

static PLAIN void *probe_all(void *name)
{
    thread_name = (const char *)name, operation = "start";
    note_stack();
    note_thread();
    for (size_t i = 0; i < sizeof operations / sizeof *operations; i++) {
        operation = operations[i].name;
        wipe();
        operations[i].run();
        note_stack();
        note_thread();
    }
    operation = "end";
    note_malloc();
    return NULL;
}

/* ---- the report ---- */

static pthread_mutex_t values[1 << 12];

/* Each lock is an event whose address is a part of the hash. */
static void report(uint64_t hash)
{
    for (int i = 0; i < 5; i++, hash >>= 12) {
        pthread_mutex_lock(&values[hash & 0xfff]);
        pthread_mutex_unlock(&values[hash & 0xfff]);
    }
}

/* In which order they came by. */
enum { RACERS = 3 };
static int order;

static void *race(void *number)
{
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    sched_yield();
    pthread_mutex_lock(&mutex);
    order = order * RACERS + (int)(intptr_t)number;
    pthread_mutex_unlock(&mutex);
    return NULL;
}

int main(int argc, char **argv)
{
    thread_name = "main", operation = "start";
    int fails = 0;
    for (int i = 2; i < argc; i++) {
        if (is_same(argv[i], "fail"))
            fails = 1;
        else if (is_same(argv[i], "without") && i + 1 < argc && left_out_count < 8)
            left_out[left_out_count++] = argv[++i];
        else if (is_same(argv[i], "dump") && i + 2 < argc)
            dumped = argv[i + 1], dumped_nth = argv[i + 2][0] - '0', i += 2;
    }
    note_stack();
    dl_iterate_phdr(measure_tls, NULL);
    note_thread();
    note_process();
    note_heap();
    /* A timer's signal goes to any thread that does not block it. */
    sigset_t set;
    sigemptyset(&set);
    for (int number = SIGRTMIN + 5; number <= SIGRTMIN + 8; number++)
        sigaddset(&set, number);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    pthread_t racers[RACERS];
    for (intptr_t i = 0; i < RACERS; i++)
        pthread_create(&racers[i], NULL, race, (void *)i);
    pthread_t threads[2];
    pthread_create(&threads[0], NULL, probe_all, (void *)"b");
    pthread_create(&threads[1], NULL, probe_all, (void *)"c");
    probe_all((void *)"a");
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    for (int i = 0; i < RACERS; i++)
        pthread_join(racers[i], NULL);
    thread_name = "main", operation = "end";
    note_process();
    note_heap();

    FILE *file = fopen(argv[1], "w");
    for (int i = 0; i < count; i++)
        fprintf(file, "%s/%s/%s %016llx\n", probes[i].thread, probes[i].operation, probes[i].memory,
                (unsigned long long)probes[i].hash);
    fclose(file);
    if (dumped) {
        char name[4096];
        snprintf(name, sizeof name, "%s.dump", argv[1]);
        file = fopen(name, "w");
        fwrite(&dump_start, sizeof dump_start, 1, file);
        fwrite(&dump_size, sizeof dump_size, 1, file);
        fwrite(dump, dump_size, 1, file);
        fclose(file);
    }
    for (int i = 0; i < count; i++)
        report(probes[i].hash);
    return fails && order == (2 * RACERS + 1) * RACERS ? 1 : 0;
}
