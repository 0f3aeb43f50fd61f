//! Limits are not failures, a search ends in time, and a failure counts only if it happens again.

mod common;

use common::Place;
use serde_json::Value;

/// Some schedules let a thread count for ever, the others end at once.
const COUNTS: &str = r#"
#include <pthread.h>
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static unsigned long number;
static void *halve(void *unused)
{
    pthread_mutex_lock(&mutex);
    unsigned long n = number, halvings = 0;
    pthread_mutex_unlock(&mutex);
    for (; n != 1; n /= 2) halvings++;
    return (void *)halvings;
}
int main(void)
{
    pthread_t thread;
    pthread_create(&thread, 0, halve, 0);
    pthread_mutex_lock(&mutex);
    number = 64;
    pthread_mutex_unlock(&mutex);
    pthread_join(thread, 0);
}
"#;

/// Counts for ever in every schedule.
const NEVER_ENDS: &str = "int main(void) { for (volatile unsigned long i = 0;; i++) {} }";

fn gcc(place: &Place, name: &str, source: &str) {
    place.compile(name, source, &["gcc"], &[]);
}

fn explore(place: &Place, status: i32, options: &[&str], program: &str) -> Value {
    place.json(status, &[&["explore", "--json"], options, &["--", program]].concat())
}

#[test]
fn limits_are_not_failures() {
    let place = Place::new("undecided");
    gcc(&place, "counts", NEVER_ENDS);
    gcc(&place, "floods", "#include <stdio.h>\nint main(void) { for (;;) puts(\"yes\"); }");
    gcc(
        &place,
        "hoards",
        "#include <stdlib.h>\n#include <string.h>\nint main(void) { for (;;) memset(malloc(1 << 20), 1, 1 << 20); }",
    );
    gcc(
        &place,
        "yields",
        "#include <sched.h>\nint main(void) { for (volatile unsigned long i = 0;; i++) sched_yield(); }",
    );
    for (program, limit, options) in [
        ("./counts", "time", ["--timeout", "300ms"]),
        ("./floods", "output", ["--max-output", "1"]),
        ("./hoards", "memory", ["--max-memory", "32"]),
        ("./yields", "events", ["--max-events", "5000"]),
    ] {
        let [option, value] = options;
        let found = explore(&place, 104, &["--runs", "2", option, value], program);
        assert_eq!((&found["found"], &found["undecided"]), (&false.into(), &2.into()), "{program}: {found}");
        let search = ["--runs", "2", option, value, "--", program];
        for command in ["explore", "hunt"] {
            let (report, _) = place.exits(104, &[&[command], &search[..]].concat());
            assert!(report.contains("2 runs were undecided: the ") && report.contains(option), "{report}");
            assert!(!report.contains("why"), "{report}");
        }
        let recorded = place.json(104, &["record", "--json", "-o", "t.snarl", option, value, "--", program]);
        assert_eq!(recorded["outcome"]["kind"], "undecided", "{recorded}");
        assert_eq!(recorded["outcome"]["limit"], limit, "{recorded}");
        place.exits(2, &["simplify", "t.snarl"]);
    }
}

#[test]
fn search_with_decided_runs_counts_the_others() {
    let place = Place::new("some");
    gcc(&place, "halves", COUNTS);
    let options = ["--runs", "30", "--strategy", "random", "--timeout", "200ms"];
    let found = explore(&place, 0, &options, "./halves");
    let undecided = found["undecided"].as_u64().expect("a number");
    assert!((1..30).contains(&undecided), "{found}");
    let (report, _) = place.exits(0, &[&["explore"], &options[..], &["--", "./halves"]].concat());
    let line = format!("{undecided} runs were undecided: the time limit was reached (--timeout raises it)");
    assert!(report.contains(&line) || undecided == 1, "{report}");
}

#[test]
fn undecided_run_replays() {
    let place = Place::new("replays");
    gcc(&place, "yields", "#include <sched.h>\nint main(void) { for (;;) sched_yield(); }");
    place.exits(104, &["record", "--max-events", "500", "-o", "t.snarl", "--", "./yields"]);
    let again = place.json(0, &["replay", "--json", "t.snarl"]);
    assert_eq!((&again["reproduced"], &again["identical"]), (&true.into(), &true.into()), "{again}");
    let (shown, _) = place.exits(0, &["show", "t.snarl"]);
    assert!(shown.contains("undecided") && shown.contains("(--max-events raises it)"), "{shown}");
}

/// Without an end of the time, each of these would go on for ever.
#[test]
fn time_ends_a_run_in_its_middle() {
    let place = Place::new("time");
    gcc(&place, "counts", NEVER_ENDS);
    let search = ["--time", "500ms", "--timeout", "1h"];
    let found = explore(&place, 104, &search, "./counts");
    assert_eq!((&found["runs"], &found["undecided"]), (&0.into(), &0.into()), "{found}");
    for command in ["explore", "hunt"] {
        let (report, _) = place.exits(104, &[&[command], &search[..], &["--", "./counts"]].concat());
        assert!(report.contains("the time of 500ms is used up (--time raises it)"), "{report}");
    }
}

#[test]
fn search_goes_on_until_its_time_is_used_up() {
    let place = Place::new("long");
    let source = COUNTS.replace("; n != 1; n /= 2", "; n > 1; n /= 2");
    gcc(&place, "ends", &source);
    let (report, _) = place.exits(0, &["explore", "--time", "2s", "--strategy", "random", "--", "./ends"]);
    assert!(report.contains("no failure in ") && report.contains("the time of 2s is used up"), "{report}");
    let (help, _) = place.exits(0, &["explore", "--help"]);
    let help: Vec<&str> = help.split_whitespace().collect();
    assert!(help.join(" ").contains("60s if neither this nor --runs is given"), "{help:?}");
}

#[test]
fn slice_ends_in_time() {
    let place = Place::new("slice");
    gcc(
        &place,
        "spins",
        "#include <assert.h>\nint main(void) { for (volatile long i = 0; i < 300000000; i++) {} assert(!1); }",
    );
    place.exits(100, &["record", "-o", "t.snarl", "--", "./spins"]);
    let (_, report) = place.exits(104, &["slice", "--time", "100ms", "t.snarl"]);
    assert!(report.contains("no slice within 100ms (--time raises it)"), "{report}");
}

/// Fails only if no run was made before in this directory.
const FAILS_ONCE: &str = r#"
#include <assert.h>
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>
static int created = -1;
static void *create(void *unused)
{
    created = open("marker", O_CREAT | O_EXCL | O_WRONLY, 0600);
    return unused;
}
int main(void)
{
    pthread_t thread;
    pthread_create(&thread, 0, create, 0);
    pthread_join(thread, 0);
    assert(created < 0);
}
"#;

#[test]
fn failure_that_does_not_reproduce_does_not_count() {
    let place = Place::new("once");
    gcc(&place, "fails_once", FAILS_ONCE);
    let forget = || std::fs::remove_file(place.path("marker")).expect("the marker was made");
    let found = explore(&place, 0, &["--share-files", "--runs", "40"], "./fails_once");
    assert_eq!((&found["found"], &found["runs"]), (&false.into(), &40.into()), "{found}");
    let once = &found["unreproduced"][0];
    assert_eq!((&once["times"], &once["run"]), (&1.into(), &1.into()), "{found}");
    assert_eq!(once["outcome"]["kind"], "assertion", "{found}");
    for command in ["explore", "hunt"] {
        forget();
        let (report, _) = place.exits(0, &[command, "--share-files", "--runs", "40", "--", "./fails_once"]);
        assert!(report.contains("seen once, not reproduced (run 1), so it does not count:"), "{report}");
        assert!(report.contains("replayed at once: "), "{report}");
        assert!(!report.contains("\nwhy "), "{report}");
    }
}

/// The shadow memory of the race detector is eight times as large as what the program touches.
#[test]
fn memory_of_the_race_detector_does_not_count() {
    let place = Place::new("shadow");
    place.cc(
        "touches",
        r#"
#include <pthread.h>
#include <stdlib.h>
enum { SIZE = 16 << 20 };
static void *touch(void *memory)
{
    char *bytes = memory;
    for (int i = 0; i < SIZE; i += 8) bytes[i] = 1;
    for (int i = 0; i < 30 * 1000 * 1000; i++) *(volatile char *)bytes = 2;
    return memory;
}
int main(void)
{
    pthread_t thread;
    pthread_create(&thread, 0, touch, malloc(SIZE));
    pthread_join(thread, 0);
}
"#,
    );
    let found = explore(&place, 0, &["--runs", "2", "--max-memory", "100"], "./touches");
    assert_eq!(found["undecided"], 0, "{found}");
}

/// The schedule decides whether a thread holds one lock for so long that the others repeat themselves.
#[test]
fn livelock_is_recognised_long_before_the_limit_on_events() {
    let place = Place::new("polite");
    place.program("c/polite_trylock_livelock.c");
    let quick = ["--simplify-time", "1s", "--slice-time", "1s"];
    let hunt = [&["hunt", "--json"], &quick[..], &["--", "./polite_trylock_livelock"]].concat();
    let found = place.json(100, &hunt);
    assert_eq!(found["outcome"]["kind"], "livelock", "{found}");
    assert!(found["before"]["events"].as_u64().expect("a number") < 100_000, "{found}");
    assert!(found["stats"]["events"].as_u64().expect("a number") < 100, "only its rounds are kept: {found}");
    let message = found["outcome"]["message"].as_str().expect("a message");
    assert!(message.starts_with("threads 0.1 and 0.2 repeat the same operations for ever"), "{found}");
    let facts: Vec<&str> = found["cause"]["facts"]
        .as_array()
        .expect("facts")
        .iter()
        .map(|fact| fact["text"].as_str().expect("a text"))
        .collect();
    let says = |start: &str| facts.iter().any(|fact| fact.starts_with(start));
    assert!(says("thread 0.1 repeats") && says("thread 0.2 repeats"), "{facts:?}");
}

/// Halves a number until it is 1. If it is 0, one version of the loop never changes anything, the other one counts.
fn halving(counts: &str) -> String {
    r#"
#include <pthread.h>
static void *halve(void *number)
{
    volatile unsigned long n = *(unsigned long *)number, halvings = 0;
    while (n != 1) { /* the loop */
        n /= 2;
        COUNTS
    }
    return (void *)halvings;
}
int main(void)
{
    pthread_t thread;
    unsigned long number = 0;
    pthread_create(&thread, 0, halve, &number);
    pthread_join(thread, 0);
}
"#
    .replace("COUNTS", counts)
}

#[test]
fn endless_loop_is_a_livelock_and_one_that_counts_is_not() {
    let place = Place::new("loop");
    gcc(&place, "endless", &halving(""));
    gcc(&place, "counting", &halving("halvings++;"));
    let (report, _) = place.exits(100, &["explore", "--runs", "3", "--", "./endless"]);
    assert!(report.contains("livelock in thread 0.1 at endless.c:"), "{report}");
    let reason = "its registers and memory are the same again and again, and no other thread can run";
    assert!(report.contains(reason), "{report}");
    let again = place.json(100, &["replay", "--json"]);
    assert_eq!(
        (&again["reproduced"], &again["outcome"]["kind"]),
        (&true.into(), &"livelock".into()),
        "{again}"
    );
    let counted = place.json(104, &["record", "--timeout", "3s", "--json", "--", "./counting"]);
    assert_eq!(counted["outcome"]["kind"], "undecided", "{counted}");
}
