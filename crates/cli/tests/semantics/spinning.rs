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
