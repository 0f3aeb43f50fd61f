//! Threads that wait for a variable in a loop without schedule points, and threads that only look like it.

use crate::common::Place;

/// The same registers recur at the same instruction, but the outer loop counts in memory.
#[test]
fn repeated_reading_is_not_mistaken_for_spinning() {
    let place = Place::new("reads");
    place.compile("reads", READS, &["gcc"], &[]);
    let (_, notes) = place.exits(0, &["record", "-o", "t.snarl", "--", "./reads"]);
    assert!(!notes.contains("watchdog"), "{notes}");
    assert_eq!(place.json(0, &["replay", "--json", "t.snarl"])["identical"], true);
}

const READS: &str = r#"
#include <pthread.h>
static volatile char bytes[4];
static volatile long rounds;
static void *reads(void *unused)
{
    for (rounds = 0; rounds < 150 * 1000 * 1000; rounds++)
        for (volatile char *at = bytes; at < bytes + sizeof bytes; at++)
            if (*at) return unused;
    return unused;
}
int main(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, reads, NULL);
    pthread_join(thread, NULL);
    return 0;
}
"#;

const HANDSHAKE: &str = r#"
#include <pthread.h>
#include <stdio.h>
static volatile int ready, answered;
static int value;
static int is_ready(void) { return ready; }
static void *waits(void *unused)
{
    while (!is_ready()) ;
    value++;
    answered = 1;
    return unused;
}
int main(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, waits, NULL);
    ready = 1;
    while (!answered) ;
    pthread_join(thread, NULL);
    printf("%d\n", value);
    return 0;
}
"#;

/// Compiled or not, and whether the loop calls functions and writes memory or not.
#[test]
fn handshake_by_a_volatile_flag_ends_normally() {
    let place = Place::new("handshake");
    place.compile("plain", HANDSHAKE, &["gcc"], &["-O0"]);
    place.compile("optimised", HANDSHAKE, &[crate::common::UNSNARL, "cc"], &["-O2"]);
    place.compile("unoptimised", HANDSHAKE, &[crate::common::UNSNARL, "cc"], &["-O0"]);
    for program in ["./plain", "./optimised", "./unoptimised"] {
        for points in ["sync", "races", "all"] {
            let (output, _) = place
                .exits(0, &["record", "--points", points, "--seed", "3", "-o", "t.snarl", "--", program]);
            assert_eq!(output, "1\n");
            assert_eq!(
                place.json(0, &["replay", "--json", "t.snarl"])["identical"],
                true,
                "{program} {points}"
            );
        }
        place.exits(0, &["explore", "--runs", "20", "--", program]);
    }
}

/// The watchdog looks at a thread that has made no event for long, and must not leave it while it makes system calls: here
/// they block all signals, as `pthread_create` and others do.
#[test]
fn library_that_blocks_signals_is_not_disturbed() {
    let place = Place::new("busy_library");
    place.write("library.c", BUSY_LIBRARY);
    place.runs(0, "gcc", &["-O1", "-g", "-fPIC", "-shared", "-o", "liblibrary.so", "library.c"]);
    place.write("main.c", BUSY_MAIN);
    let link = ["-L.", "-llibrary", "-Wl,-rpath,$ORIGIN"];
    place.runs(0, "gcc", &[&["-g", "-pthread", "-o", "main", "main.c"][..], &link].concat());
    for seed in ["1", "2"] {
        place.exits(0, &["record", "--seed", seed, "-o", "t.snarl", "--", "./main"]);
        assert_eq!(place.json(0, &["replay", "--json", "t.snarl"])["identical"], true);
    }
}

const BUSY_LIBRARY: &str = r#"
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>
void compute(void)
{
    unsigned long all = ~0ul, none = 0;
    for (int i = 0; i < 3000; i++) {
        syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, (void *)0, sizeof all);
        for (volatile int k = 0; k < 40 * 1000; k++) ;
        syscall(SYS_rt_sigprocmask, SIG_SETMASK, &none, (void *)0, sizeof none);
    }
}
"#;

const BUSY_MAIN: &str = r#"
#include <pthread.h>
void compute(void);
static void *computes(void *unused)
{
    compute();
    return unused;
}
int main(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, computes, NULL);
    compute();
    pthread_join(thread, NULL);
    return 0;
}
"#;
