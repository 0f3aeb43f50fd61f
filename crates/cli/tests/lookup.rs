//! Functions that are looked up by name, and allocators that the C library calls while it creates threads. All threads
//! are controlled, an interposed `pthread_create` is called once per thread, and replays are identical.

mod common;

use common::Place;
use serde_json::Value;

const LIBRARY: &[&str] = &["-shared", "-fPIC"];
const WITH_LIBRARY: &[&str] = &["-L.", "-l:library.so", "-Wl,-rpath,$ORIGIN"];

/// Builds `./program`, linked with a library.
fn build(place: &Place, library: &str, program: &str) {
    place.compile("library.so", library, &["gcc"], LIBRARY);
    place.compile("program", program, &["gcc"], WITH_LIBRARY);
}

/// Records `./program` by several schedules, on fibers and on kernel threads, and replays each; returns the output of
/// `show` for each.
fn recorded_and_replayed(place: &Place, threads: u64) -> Vec<String> {
    let variants = ["1", "2", "3", "4"].map(|seed| vec!["--seed", seed]);
    let record = |variant: &Vec<&str>| {
        let run = place
            .json(0, &[&["record", "--json", "-o", "t.snarl"], &variant[..], &["--", "./program"]].concat());
        assert_eq!(run["stats"]["threads"], threads, "{variant:?}");
        let replay: Value = place.json(0, &["replay", "--json", "t.snarl"]);
        assert_eq!(replay["identical"], true, "{variant:?}: {replay}");
        place.unsnarl(0, &["show", "--all", "t.snarl"])
    };
    let kernel = vec!["--threads", "kernel", "--seed", "1"];
    variants.iter().chain([&kernel]).map(record).collect()
}

/// A library that starts a thread past an interposed `pthread_create`, as jemalloc does.
const USES_DLSYM_NEXT: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
typedef int start(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
int start_behind(pthread_t *thread, void *(*routine)(void *))
{
    start *behind = (start *)dlsym(RTLD_NEXT, "pthread_create");
    return behind ? behind(thread, 0, routine, 0) : 1;
}
"#;

const TWO_COUNT: &str = r#"
#include <pthread.h>
int start_behind(pthread_t *, void *(*)(void *));
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int count;
static void *work(void *unused)
{
    for (int i = 0; i < 20; i++) {
        pthread_mutex_lock(&mutex);
        count++;
        pthread_mutex_unlock(&mutex);
    }
    return unused;
}
int main(void)
{
    pthread_t thread;
    if (start_behind(&thread, work))
        return 1;
    work(0);
    pthread_join(thread, 0);
    return count != 40;
}
"#;

#[test]
fn thread_started_through_dlsym_is_controlled() {
    let place = Place::new("behind");
    build(&place, USES_DLSYM_NEXT, TWO_COUNT);
    recorded_and_replayed(&place, 2);
}

/// An interposed `pthread_create` that counts threads and calls the next one.
const INTERPOSES: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
typedef int start(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
int started;
int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*routine)(void *), void *arg)
{
    static start *behind;
    if (!behind)
        behind = (start *)dlsym(RTLD_NEXT, "pthread_create");
    started++;
    return behind(thread, attr, routine, arg);
}
"#;

const STARTS_TWO: &str = r#"
#include <pthread.h>
extern int started;
static void *work(void *unused)
{
    return unused;
}
int main(void)
{
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        if (pthread_create(&threads[i], 0, work, 0))
            return 1;
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], 0);
    return started != 2;
}
"#;

#[test]
fn other_interposed_library_is_called_once() {
    let place = Place::new("library_stands_in");
    build(&place, INTERPOSES, STARTS_TWO);
    recorded_and_replayed(&place, 3);

    let place = Place::new("program_stands_in");
    place.compile("program", &format!("{INTERPOSES}{STARTS_TWO}"), &["gcc"], &[]);
    recorded_and_replayed(&place, 3);
}

/// AddressSanitizer in the program interposes too, and calls `dlsym` before anything is initialised.
#[test]
fn early_dlsym_of_sanitizer_is_answered() {
    let place = Place::new("sanitizer");
    place.compile("library.so", USES_DLSYM_NEXT, &["gcc"], LIBRARY);
    let sanitized = [WITH_LIBRARY, &["-fsanitize=address", "-static-libasan"]].concat();
    // The leak checker uses its own threads and waits.
    let options = "const char *__asan_default_options(void) { return \"detect_leaks=0\"; }";
    place.compile("program", &format!("{TWO_COUNT}{options}"), &["gcc"], &sanitized);
    recorded_and_replayed(&place, 2);
}

/// An allocator with one lock.
const ALLOCATOR: &str = r#"
#include <pthread.h>
#include <stddef.h>
void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
void __libc_free(void *);
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *unlocked(void *result)
{
    pthread_mutex_unlock(&lock);
    return result;
}
void *malloc(size_t size) { pthread_mutex_lock(&lock); return unlocked(__libc_malloc(size)); }
void *calloc(size_t n, size_t size) { pthread_mutex_lock(&lock); return unlocked(__libc_calloc(n, size)); }
void *realloc(void *old, size_t size) { pthread_mutex_lock(&lock); return unlocked(__libc_realloc(old, size)); }
void free(void *block)
{
    if (!block)
        return;
    pthread_mutex_lock(&lock);
    __libc_free(block);
    unlocked(0);
}
"#;

const ALLOCATES_AND_STARTS: &str = r#"
#include <pthread.h>
#include <stdlib.h>
static void *work(void *unused)
{
    for (int i = 0; i < 10; i++) {
        void *volatile block = malloc(32);
        free(block);
    }
    return unused;
}
int main(void)
{
    pthread_t threads[5];
    for (int i = 0; i < 5; i++)
        if (pthread_create(&threads[i], 0, work, 0))
            return 1;
    for (int i = 0; i < 5; i++)
        pthread_join(threads[i], 0);
    return 0;
}
"#;

#[test]
fn allocator_lock_during_thread_creation_is_scheduled() {
    let place = Place::new("allocator");
    build(&place, ALLOCATOR, ALLOCATES_AND_STARTS);
    let shown = recorded_and_replayed(&place, 6);
    // Only the C library calls this function. It is shown only if another thread had the lock.
    assert!(shown.iter().any(|trace| trace.contains("calloc")), "{}", shown[0]);
}

const ENDS_WITH_A_BLOCK: &str = r#"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
static void *has_a_block(void *unused)
{
    strerror(4711); /* The C library frees its text in the thread's last steps. */
    return unused;
}
static void *allocates(void *unused)
{
    for (int i = 0; i < 10; i++) {
        void *volatile block = malloc(32);
        free(block);
    }
    return unused;
}
int main(void)
{
    pthread_t threads[3];
    pthread_create(&threads[0], 0, has_a_block, 0);
    pthread_join(threads[0], 0);
    pthread_create(&threads[1], 0, allocates, 0);
    pthread_create(&threads[0], 0, has_a_block, 0);
    pthread_join(threads[0], 0);
    pthread_create(&threads[2], 0, allocates, 0);
    pthread_join(threads[1], 0);
    pthread_join(threads[2], 0);
    return 0;
}
"#;

#[test]
fn lock_blocking_thread_exit_is_reported() {
    let place = Place::new("allocator_at_the_end");
    build(&place, ALLOCATOR, ENDS_WITH_A_BLOCK);
    let held_lock = (1..=40).find_map(|seed: u32| {
        let run = place.ends(&["record", "--seed", &seed.to_string(), "--", "./program"]);
        let report = String::from_utf8_lossy(&run.stderr).into_owned();
        assert!(matches!(run.status.code(), Some(0 | 96)), "seed {seed}: {}\n{report}", run.status);
        (run.status.code() == Some(96)).then_some(report)
    });
    let report = held_lock.expect("some schedule has the lock taken when a thread ends");
    assert!(report.contains("waits in the C library for a lock that another thread holds"), "{report}");
    assert!(report.contains("use the C library's allocator under unsnarl"), "{report}");
}
