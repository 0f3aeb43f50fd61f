//! A replay finds the same as its recording, even in uninitialised memory; otherwise it reports what differs and where.

mod common;

use common::{Place, UNSNARL};

/// The stack below the program's own frames holds leftovers of earlier calls, including the runtime's. Programs do read
/// them: padding is copied and ends up on the heap. Here they decide what happens next.
const LOOKS_AT_LEFTOVERS: &str = r#"
#include <assert.h>
#include <pthread.h>
#include <sched.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

/* How many bits are set in what a function finds that does not initialise its room. */
static __attribute__((noinline)) unsigned leftovers(void)
{
    volatile unsigned long room[512];
    unsigned bits = 0;
    for (int i = 0; i < 512; i++)
        bits += __builtin_popcountl(room[i]);
    return bits;
}

static void *look(void *unused)
{
    (void)unused;
    for (int round = 0; round < 4; round++) {
        pthread_mutex_lock(&mutex);
        pthread_mutex_unlock(&mutex);
        for (unsigned n = leftovers() % 8; n > 0; n--)
            sched_yield();
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        assert(pthread_create(&threads[i], NULL, look, NULL) == 0);
    look(NULL);
    for (int i = 0; i < 2; i++)
        assert(pthread_join(threads[i], NULL) == 0);
    return 0;
}
"#;

#[test]
fn uninitialised_stack_memory_is_identical_in_replay() {
    for (name, compiler) in [("plain", &["gcc"][..]), ("instrumented", &[UNSNARL, "cc"])] {
        let place = Place::new(name);
        place.compile("looks", LOOKS_AT_LEFTOVERS, compiler, &["-w"]);
        for seed in 1..=20 {
            place.exits(0, &["record", "--seed", &seed.to_string(), "-o", "t.snarl", "--", "./looks"]);
            let report = place.json(0, &["replay", "t.snarl", "--json"]);
            assert_eq!(report["identical"], true, "{name}, seed {seed}: {report}");
        }
    }
}

/// Hashes stacks, the heap, thread-local storage, memory that the C library fills and signal frames, after each of some
/// fifty operations.
/// `cargo xtask bench determinism` replays it thousands of times.
const PROBES: &str = include_str!("../../../programs/determinism/probes.c");

/// The memory that differs when the kernel switches processes at other moments, see docs/limits.md.
const DEPENDS_ON_KERNEL: [&str; 2] = ["without", "XSAVE header"];

/// Returns the probes that differ.
fn differences(recorded: &str, replayed: &str) -> Vec<String> {
    let both = recorded.lines().zip(replayed.lines());
    both.filter(|(a, b)| a != b).map(|(a, b)| format!("{a}, then {b}")).collect()
}

#[test]
fn uninitialised_memory_of_all_kinds_is_identical_in_replay() {
    let compilers =
        [("gcc", &["gcc"][..]), ("cc", &[UNSNARL, "cc"]), ("cpp", &[UNSNARL, "c++", "-x", "c++"])];
    for (name, compiler) in compilers {
        let place = Place::new(&format!("probes_{name}"));
        place.compile("probes", PROBES, compiler, &["-w"]);
        for seed in ["1", "2"] {
            let record = ["record", "--seed", seed, "-o", "t.snarl", "--", "./probes", "found"];
            place.exits(0, &[&record[..], &DEPENDS_ON_KERNEL].concat());
            let recorded = place.read("found");
            let report = place.json(0, &["replay", "t.snarl", "--json"]);
            let different = differences(&recorded, &place.read("found"));
            assert!(different.is_empty(), "{name}, seed {seed}: {different:#?}");
            assert_eq!(report["identical"], true, "{name}, seed {seed}: {report}");
        }
    }
}

#[test]
fn replay_of_search_trace_finds_identical_memory() {
    let place = Place::new("probes_found");
    place.compile("probes", PROBES, &["gcc"], &["-w"]);
    let search = ["explore", "--json", "--strategy", "random", "--runs", "1000", "-j", "1"];
    let program = ["--", "./probes", "found", "fail", "without", "stack", "without", "heap"];
    let report = place.json(100, &[&search[..], &program, &DEPENDS_ON_KERNEL].concat());
    let trace = report["failures"][0]["trace"].as_str().expect("a failure");
    let replayed = place.json(100, &["replay", trace, "--json"]);
    assert_eq!(replayed["identical"], true, "{replayed}");
}

/// Writes what `fstat` says about the standard streams, a duplicate, a pipe and a redirected stream, by every function
/// that says it.
const LOOKS_AT_STREAMS: &str = r#"
#define _GNU_SOURCE
#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static void look(FILE *found, int fd)
{
    struct stat a, b, c;
    struct statx d;
    assert(fstat(fd, &a) == 0 && fstatat(fd, "", &b, AT_EMPTY_PATH) == 0 && syscall(SYS_fstat, fd, &c) == 0);
    assert(statx(fd, "", AT_EMPTY_PATH, STATX_ALL, &d) == 0);
    assert(a.st_ino == b.st_ino && a.st_ino == c.st_ino && a.st_ino == d.stx_ino);
    assert(a.st_mtim.tv_nsec == d.stx_mtime.tv_nsec && a.st_dev == b.st_dev && a.st_dev == c.st_dev);
    fprintf(found, "%lx %lu %ld.%09ld\n", a.st_dev, a.st_ino, a.st_mtim.tv_sec, a.st_mtim.tv_nsec);
}

int main(void)
{
    FILE *found = fopen("found", "w");
    int ends[2];
    assert(pipe(ends) == 0);
    const int fds[] = {0, 1, 2, dup(1), ends[0], ends[1]};
    for (int i = 0; i < 6; i++)
        look(found, fds[i]);
    struct stat real, shown;
    int file = open("looks.c", O_RDONLY);
    assert(dup2(file, 1) == 1 && stat("looks.c", &real) == 0 && fstat(1, &shown) == 0);
    assert(real.st_ino == shown.st_ino && real.st_dev == shown.st_dev && real.st_dev != 0);
    assert(fstat(-1, &shown) == -1);
    return 0;
}
"#;

#[test]
fn status_of_streams_is_the_same_in_every_run() {
    let place = Place::new("streams");
    place.compile("looks", LOOKS_AT_STREAMS, &["gcc"], &["-w"]);
    let mut all = Vec::new();
    for threads in ["fibers", "kernel"] {
        place.exits(0, &["record", "--threads", threads, "-o", "t.snarl", "--", "./looks"]);
        all.push(place.read("found"));
        place.exits(0, &["replay", "--threads", threads, "t.snarl"]);
        all.push(place.read("found"));
    }
    place.exits(0, &["explore", "--runs", "20", "-j", "1", "--", "./looks"]);
    all.push(place.read("found"));
    let lines: Vec<&str> = all[0].lines().collect();
    assert_eq!((lines[1], lines[4]), (lines[3], lines[5]), "a duplicate and the ends of a pipe: {lines:?}");
    assert!(lines[0] != lines[1] && lines[1] != lines[2] && lines[2] != lines[4], "{lines:?}");
    assert!(all.iter().all(|found| *found == all[0]), "{all:#?}");
}

/// If any thread blocks an ignored signal, the kernel queues it and interrupts a system call of the thread that runs.
/// Prints how many threads block the signal of a child that ends, while one thread runs and two wait.
const COUNTS_BLOCKING_THREADS: &str = r#"
#include <dirent.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>

static sem_t go;

static void *wait_to_go(void *unused)
{
    sem_wait(&go);
    return unused;
}

static int blocks(const char *thread)
{
    char path[64], line[256];
    unsigned long mask = 0;
    snprintf(path, sizeof path, "/proc/self/task/%s/status", thread);
    FILE *status = fopen(path, "r");
    while (status && fgets(line, sizeof line, status))
        sscanf(line, "SigBlk: %lx", &mask);
    if (status)
        fclose(status);
    return mask >> (SIGCHLD - 1) & 1;
}

int main(void)
{
    pthread_t threads[2];
    int seen = 0, blocking = 0;
    sem_init(&go, 0, 0);
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, wait_to_go, NULL);
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *task; (task = readdir(tasks));)
        if (task->d_name[0] != '.') {
            seen++;
            blocking += blocks(task->d_name);
        }
    closedir(tasks);
    printf("%d threads, %d block it\n", seen, blocking);
    for (int i = 0; i < 2; i++)
        sem_post(&go);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
"#;

#[test]
fn ending_child_does_not_interrupt_other_threads() {
    let place = Place::new("blocking");
    place.compile("counts", COUNTS_BLOCKING_THREADS, &["gcc"], &["-w"]);
    let (stdout, _) = place.exits(0, &["record", "--threads", "kernel", "--", "./counts"]);
    assert_eq!(stdout, "3 threads, 0 block it\n");
}

/// Files are not part of a trace.
const COUNTS_FILE_CONTENT: &str = r#"
#include <stdatomic.h>
#include <stdio.h>
static atomic_int count;
int main(void)
{
    int number = 0;
    FILE *file = fopen("number", "r");
    if (!file || fscanf(file, "%d", &number) != 1)
        return 1;
    atomic_store(&count, number); /* HERE */
    return 0;
}
"#;

#[test]
fn replay_with_different_value_reports_value_and_site() {
    let place = Place::new("another_value");
    place.cc("counts", COUNTS_FILE_CONTENT);
    place.write("number", "17");
    place.exits(0, &["record", "-o", "t.snarl", "--", "./counts"]);
    assert_eq!(place.json(0, &["replay", "t.snarl", "--json"])["difference"], serde_json::Value::Null);
    place.write("number", "33");

    let (_, report) = place.exits(0, &["replay", "t.snarl"]);
    assert!(report.contains("operations are the same, at other addresses or with other values"), "{report}");
    let line = COUNTS_FILE_CONTENT.lines().position(|line| line.contains("HERE")).expect("a line") + 1;
    assert!(report.contains(&format!("counts.c:{line}\n")), "{report}");
    assert!(report.contains("recorded: value 0x11,") && report.contains("replayed: value 0x21,"), "{report}");

    let json = place.json(0, &["replay", "t.snarl", "--json"]);
    assert_eq!(json["identical"], false, "{json}");
    assert_eq!(json["difference"]["expected"]["line"], line, "{json}");
    assert_eq!(json["difference"]["recorded"]["value"], 17, "{json}");
    assert_eq!(json["difference"]["replayed"]["value"], 33, "{json}");
}
