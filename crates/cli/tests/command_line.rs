//! The command line as a user sees it: exit statuses, messages, files.

mod common;

use common::{Place, UNSNARL};
use std::{
    fs,
    process::{Command, Stdio},
};

/// A lost update behind an assertion.
const LOST_UPDATE: &str = r#"
#include <assert.h>
#include <pthread.h>
static int hits;
static void *visit(void *a) { int h = hits; hits = h + 1; return a; }
int main(void) {
  pthread_t t[2];
  for (int i = 0; i < 2; i++) pthread_create(&t[i], 0, visit, 0);
  for (int i = 0; i < 2; i++) pthread_join(t[i], 0);
  assert(hits == 2);
}
"#;

impl Place {
    /// Compiles with plain gcc, as a user would.
    fn gcc(&self, name: &str, source: &str) {
        self.compile(name, source, &["gcc"], &[]);
    }
}

#[test]
fn failure_is_found_saved_and_replayed_by_trace_and_seed() {
    let place = Place::new("found");
    place.cc("counter", LOST_UPDATE);
    let found = place.json(100, &["explore", "--json", "--", "./counter"]);
    assert_eq!(found["outcome"]["kind"], "assertion");
    assert_eq!(found["outcome"]["site"], "counter.c:10");
    let again = place.json(100, &["explore", "--json", "--", "./counter"]);
    assert_eq!(
        (&found["runs"], &found["seed"], &found["stats"]),
        (&again["runs"], &again["seed"], &again["stats"])
    );

    let trace = found["trace"].as_str().expect("a trace");
    let recorded = place.json(100, &["record", "--like", trace, "--json", "--", "./counter"]);
    assert_eq!(recorded["stats"], found["stats"]);
    let replayed = place.json(100, &["replay", "--json"]);
    assert_eq!((&replayed["reproduced"], &replayed["identical"]), (&true.into(), &true.into()));
    let relaxed = place.json(100, &["replay", "--relaxed", "--json"]);
    assert_eq!(relaxed["reproduced"], true);
    let (shown, _) = place.exits(0, &["show"]);
    assert!(shown.contains("counter.c:5") && shown.contains("preempts") && shown.contains("hits"), "{shown}");
}

#[test]
fn uncontrollable_targets_are_rejected_with_the_reason() {
    let place = Place::new("refused");
    let refused = |args: &[&str], reason: &str| {
        let (_, stderr) = place.exits(96, args);
        assert!(stderr.contains(reason) && stderr.lines().count() == 1, "wanted `{reason}`: {stderr}");
    };
    refused(&["explore", "--", "./nowhere"], "no program ./nowhere");
    place.write("script", "#!/bin/sh\ntrue\n");
    place.write("text", "not a program");
    for file in ["script", "text"] {
        let permissions = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(place.0.join(file), permissions).expect("permissions");
    }
    refused(&["record", "--", "./script"], "it is a script");
    refused(&["record", "--", "./text"], "not an ELF executable");
    place.compile("static", "int main(void) { return 0; }", &["gcc"], &["-static"]);
    refused(&["record", "--", "./static"], "statically linked");
    place.exits(2, &["explore", "--no-such-option"]);
    place.exits(2, &["explore", "--strategy", "divination", "--", "/bin/true"]);
}

#[test]
fn damaged_and_foreign_traces_have_different_errors() {
    let place = Place::new("damaged");
    place.gcc("fine", "int main(void) { return 0; }");
    place.exits(0, &["record", "-o", "t.snarl", "--", "./fine"]);
    let whole = fs::read(place.0.join("t.snarl")).expect("a trace");
    let refused = |bytes: &[u8], reason: &str| {
        place.write("damaged.snarl", bytes);
        for command in ["replay", "show", "export"] {
            let (_, stderr) = place.exits(96, &[command, "damaged.snarl"]);
            assert!(stderr.contains(reason), "wanted `{reason}`: {stderr}");
        }
    };
    refused(b"junk", "not a");
    refused(&whole[..whole.len() / 2], "cut short");
    let mut flipped = whole.clone();
    let middle = flipped.len() / 2;
    flipped[middle] ^= 0x40;
    refused(&flipped, "damaged in its");
    let mut newer = whole;
    newer[8] = 99;
    refused(&newer, "newer");
    let (_, stderr) = place.exits(96, &["show", "nowhere.snarl"]);
    assert!(stderr.contains("nowhere.snarl"), "{stderr}");
}

#[test]
fn rebuilt_program_is_not_replayed() {
    let place = Place::new("rebuilt");
    place.gcc("prog", "int main(void) { return 0; }");
    place.exits(0, &["record", "--", "./prog"]);
    place.gcc("prog", "int main(void) { return 1 - 1 + 0 * sizeof(\"other\"); }\nint more;");
    let (_, stderr) = place.exits(96, &["replay"]);
    assert!(stderr.contains("not the file that the trace was recorded with"), "{stderr}");
}

#[test]
fn replay_in_changed_environment_reports_divergence() {
    let place = Place::new("diverged");
    place.write("input", "1");
    place.gcc(
        "reader",
        r#"
#include <pthread.h>
#include <stdio.h>
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
int main(void) {
  int n = fgetc(fopen("input", "r")) - '0';
  for (int i = 0; i < n; i++) { pthread_mutex_lock(&m); pthread_mutex_unlock(&m); }
}
"#,
    );
    place.exits(0, &["record", "--", "./reader"]);
    place.exits(0, &["replay"]);
    place.write("input", "2");
    let (_, stderr) = place.exits(103, &["replay"]);
    assert!(stderr.contains("left its schedule at point 3"), "{stderr}");
    let report = place.json(103, &["replay", "--json"]);
    assert_eq!(report["reproduced"], false);
    assert!(report["divergence"]["point"].is_u64(), "{report}");
}

#[test]
fn misuse_is_a_warning_or_a_failure_with_fail_on() {
    let place = Place::new("misuse");
    place.gcc(
        "unlocker",
        "#include <pthread.h>\nstatic pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;\nint main(void) { pthread_mutex_unlock(&m); }",
    );
    let (_, stderr) = place.exits(0, &["record", "--", "./unlocker"]);
    assert!(stderr.contains("unlocks a lock that it does not hold"), "{stderr}");
    let report = place.json(100, &["record", "--fail-on", "misuse", "--json", "--", "./unlocker"]);
    assert_eq!(report["outcome"]["kind"], "misuse");
    place.exits(100, &["explore", "--fail-on", "misuse", "--", "./unlocker"]);
    place.exits(100, &["replay"]);
}

#[test]
fn race_is_a_failure_only_with_fail_on() {
    let place = Place::new("race");
    place.cc("counter", LOST_UPDATE);
    let report = place.json(100, &["record", "--fail-on", "race", "--json", "--", "./counter"]);
    assert_eq!(report["outcome"]["kind"], "race");
    assert_eq!(
        report["outcome"]["message"],
        "read of `hits` at counter.c:5 and write at counter.c:5: nothing orders them"
    );
    place.exits(100, &["replay"]);
    let guarded = LOST_UPDATE
        .replace("int h = hits; hits = h + 1;", "pthread_mutex_lock(&m); hits++; pthread_mutex_unlock(&m);");
    let guarded = guarded.replace(
        "static int hits;",
        "static int hits; static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;",
    );
    place.cc("guarded", &guarded);
    place.exits(0, &["explore", "--fail-on", "race", "--runs", "200", "--", "./guarded"]);
}

#[test]
fn user_checks_can_fail_a_run() {
    let place = Place::new("checks");
    place.gcc("hello", "#include <stdio.h>\nint main(void) { puts(\"hello\"); fputs(\"oops\\n\", stderr); }");
    let failed = |args: &[&str], message: &str| {
        let args = [&["explore", "--json"], args, &["--", "./hello"]].concat();
        let report = place.json(100, &args);
        assert_eq!(report["outcome"]["kind"], "check");
        assert!(report["outcome"]["message"].as_str().expect("a message").contains(message), "{report}");
    };
    failed(&["--fail-if-stdout", "^hel+o"], "standard output matches");
    failed(&["--fail-if-stderr", "^o+ps$"], "standard error matches");
    failed(&["--check", "false"], "the check `false` failed");
    place.exits(100, &["replay"]);
    place
        .exits(0, &["explore", "--runs", "5", "--check", "true", "--fail-if-stdout", "bye", "--", "./hello"]);
}

#[test]
fn search_result_is_independent_of_jobs() {
    let place = Place::new("jobs");
    place.cc("counter", LOST_UPDATE);
    let search = |jobs: &str| {
        let mut report = place.json(
            100,
            &[
                "explore",
                "--keep-going",
                "--runs",
                "200",
                "-j",
                jobs,
                "--json",
                "-o",
                "t.snarl",
                "--",
                "./counter",
            ],
        );
        report["elapsed_s"] = 0.into();
        report
    };
    let one_job = search("1");
    assert!(one_job["failures"][0]["times"].as_u64() > Some(1), "{one_job}");
    assert_eq!(one_job, search("3"));
}

#[test]
fn functions_and_offsets_are_shown_without_debug_info() {
    let place = Place::new("stripped");
    place.compile("counter", LOST_UPDATE, &[UNSNARL, "cc"], &["-g0"]);
    place.exits(100, &["explore", "--", "./counter"]);
    let (shown, _) = place.exits(0, &["show", "--all"]);
    assert!(shown.contains("visit+0x"), "{shown}");
    place.exits(100, &["replay"]);
}

#[test]
fn spurious_wakeups_happen_only_with_option() {
    let place = Place::new("spurious");
    place.gcc(
        "trusting",
        r#"
#include <assert.h>
#include <pthread.h>
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t c = PTHREAD_COND_INITIALIZER;
static int ready;
static void *wait(void *a) {
  pthread_mutex_lock(&m);
  if (!ready) { pthread_cond_wait(&c, &m); assert(ready); }
  pthread_mutex_unlock(&m);
  return a;
}
int main(void) {
  pthread_t t;
  pthread_create(&t, 0, wait, 0);
  pthread_mutex_lock(&m);
  ready = 1;
  pthread_cond_signal(&c);
  pthread_mutex_unlock(&m);
  pthread_join(t, 0);
}
"#,
    );
    place.exits(0, &["explore", "--runs", "200", "--", "./trusting"]);
    let found = place.json(100, &["explore", "--spurious", "--json", "--", "./trusting"]);
    assert_eq!(found["outcome"]["kind"], "assertion");
    assert_eq!(place.json(100, &["replay", "--json"])["identical"], true);
}

#[test]
fn standard_input_is_recorded_and_replayed() {
    let place = Place::new("stdin");
    place.gcc(
        "cat",
        "#include <stdio.h>\nint main(void) { int c; while ((c = getchar()) != EOF) putchar(c); }",
    );
    place.write("input", "hello\n");
    place.exits(0, &["record", "--stdin", "input", "--", "./cat"]);
    place.write("input", "changed\n");
    let (stdout, _) = place.exits(0, &["replay"]);
    assert_eq!(stdout, "hello\n");
}

#[test]
fn saving_a_trace_does_not_change_directory_seen_by_replay() {
    let place = Place::new("listing");
    place.gcc(
        "list",
        r#"
#include <dirent.h>
#include <pthread.h>
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
int main(void) {
  DIR *d = opendir(".");
  while (readdir(d)) { pthread_mutex_lock(&m); pthread_mutex_unlock(&m); }
}
"#,
    );
    place.exits(0, &["record", "--", "./list"]);
    assert_eq!(place.json(0, &["replay", "--json"])["identical"], true);
}

#[test]
fn traces_round_trip_through_std_text() {
    let place = Place::new("std");
    place.cc("counter", LOST_UPDATE);
    place.exits(100, &["explore", "-o", "t.snarl", "--", "./counter"]);
    place.exits(0, &["export", "t.snarl", "-o", "t.std"]);
    let text = fs::read_to_string(place.0.join("t.std")).expect("an export");
    assert!(
        text.contains("|fork(") && text.contains("|r(") && text.contains("|w(") && text.contains("|join("),
        "{text}"
    );
    place.exits(0, &["import", "t.std", "-o", "back.snarl"]);
    let (again, _) = place.exits(0, &["export", "back.snarl"]);
    assert_eq!(again, text);
    place.exits(0, &["show", "back.snarl"]);
    let (_, stderr) = place.exits(96, &["replay", "back.snarl"]);
    assert!(stderr.contains("imported"), "{stderr}");
    place.write("bad.std", "T1|acq(l)|1\nT1 rel l\n");
    let (_, stderr) = place.exits(96, &["import", "bad.std"]);
    assert!(stderr.contains("line 2"), "{stderr}");
}

#[test]
fn interrupted_search_reports_results_and_cleans_up() {
    let place = Place::new("interrupted");
    place.gcc("fine", "int main(void) { return 0; }");
    let child = Command::new(UNSNARL)
        .args(["explore", "--runs", "1000000000", "--", "./fine"])
        .current_dir(&place.0)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("unsnarl runs");
    // Once unsnarl has started a target, it handles signals. Any of its threads may start it.
    let has_children = |thread: std::io::Result<fs::DirEntry>| {
        let children = fs::read_to_string(thread.expect("a thread").path().join("children"));
        children.is_ok_and(|children| !children.trim().is_empty())
    };
    let threads = format!("/proc/{}/task", child.id());
    while !fs::read_dir(&threads).expect("a running search").any(has_children) {
        std::thread::yield_now();
    }
    let kill = Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill runs");
    assert!(kill.success());
    let output = child.wait_with_output().expect("unsnarl ends");
    assert_eq!(output.status.code(), Some(130));
    let report = String::from_utf8_lossy(&output.stdout);
    assert!(report.contains("no failure in") && report.contains("interrupted"), "{report}");
}

#[test]
fn timed_out_run_reports_its_position() {
    let place = Place::new("timeout");
    place.gcc("spin", "static volatile int stop;\nint main(void) {\n  while (!stop) {}\n}");
    let report = place.json(104, &["record", "--timeout", "3s", "--json", "--", "./spin"]);
    assert_eq!(report["outcome"]["kind"], "undecided");
    assert_eq!(report["outcome"]["limit"], "time");
    assert_eq!(report["outcome"]["site"], "spin.c:3");
    let message = report["outcome"]["message"].as_str().expect("a message");
    assert!(
        message.contains("spins without a schedule point; compile that code with unsnarl cc"),
        "{report}"
    );
}

#[test]
fn spinning_thread_is_preempted_and_named() {
    const SPINS: &str = r#"
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
static volatile int flag;
static void *waits(void *unused)
{
    while (!flag) {} /* HERE */
    return unused;
}
int main(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, waits, NULL);
    sched_yield();
    flag = 1;
    pthread_join(thread, NULL);
    puts("done");
    return 0;
}
"#;
    let place = Place::new("spins");
    place.gcc("spins", SPINS);
    let line = SPINS.lines().position(|line| line.contains("HERE")).expect("a line") + 1;
    let named = format!("spins without a schedule point; preempted by the watchdog at spins.c:{line}");
    let mut spun = 0;
    for seed in 1..=6 {
        let seed = seed.to_string();
        let (printed, report) =
            place.exits(0, &["record", "--seed", &seed, "-o", "t.snarl", "--", "./spins"]);
        assert_eq!(printed, "done\n");
        spun += u32::from(report.contains(&named));
        assert_eq!(
            place.json(0, &["replay", "t.snarl", "--json"])["identical"],
            true,
            "seed {seed}: {report}"
        );
    }
    assert!(spun > 0, "no schedule let the thread wait");
}

/// Its registers are the same at each check of the watchdog, because it counts in memory.
#[test]
fn long_computation_is_not_mistaken_for_spinning() {
    let place = Place::new("computes");
    let source = r#"
#include <pthread.h>
static void *computes(void *unused)
{
    for (int i = 0; i < 400 * 1000 * 1000; i++) {}
    return unused;
}
int main(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, computes, NULL);
    pthread_join(thread, NULL);
}
"#;
    place.compile("computes", source, &["gcc"], &["-O0"]);
    let (_, report) = place.exits(0, &["record", "-o", "t.snarl", "--", "./computes"]);
    assert!(!report.contains("watchdog"), "{report}");
    assert_eq!(place.json(0, &["replay", "t.snarl", "--json"])["identical"], true);
}

/// The watchdog does not use the thread's stack.
#[test]
fn watchdog_does_not_overflow_a_full_stack() {
    let place = Place::new("deep");
    let source = r#"
#include <pthread.h>
#include <string.h>
static int deep(int level)
{
    volatile char frame[1024];
    memset((char *)frame, level, sizeof frame);
    if (level < 112) return deep(level + 1) + frame[1];
    for (volatile long i = 0; i < 400 * 1000 * 1000; i++) {}
    return frame[0];
}
static void *recurses(void *result)
{
    *(int *)result = deep(0);
    return NULL;
}
int main(void)
{
    pthread_t thread;
    pthread_attr_t attr;
    int result;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 128 * 1024);
    pthread_create(&thread, &attr, recurses, &result);
    pthread_join(thread, NULL);
}
"#;
    place.compile("deep", source, &["gcc"], &["-O0"]);
    place.exits(0, &["record", "-o", "t.snarl", "--", "./deep"]);
}

/// The program blocks or handles every signal that it can.
#[test]
fn blocked_signals_do_not_defeat_the_time_limit() {
    let place = Place::new("timeout_blocked");
    place.gcc(
        "deaf",
        "#include <signal.h>\nstatic volatile int stop;\nint main(void) {\n  sigset_t all;\n  sigfillset(&all);\n  \
         sigprocmask(SIG_BLOCK, &all, 0);\n  signal(SIGXCPU, SIG_IGN);\n  while (!stop) {}\n}",
    );
    for threads in ["fibers", "kernel"] {
        let report =
            place.json(104, &["record", "--timeout", "3s", "--threads", threads, "--json", "--", "./deaf"]);
        assert_eq!(report["outcome"]["kind"], "undecided");
        assert_eq!(report["outcome"]["site"], "deaf.c:8");
    }
}

#[test]
fn endless_output_is_stopped() {
    let place = Place::new("output");
    place.gcc("yes", "#include <stdio.h>\nint main(void) { for (;;) puts(\"yes\"); }");
    let report = place.json(104, &["record", "--max-output", "1", "--json", "--", "./yes"]);
    assert_eq!(report["outcome"]["kind"], "undecided");
    assert_eq!(report["outcome"]["limit"], "output");
    assert!(report["outcome"]["message"].as_str().expect("a message").contains("--max-output"), "{report}");
}

/// Which limit ends a run depends on their sizes: the replay, with the usual limit on output, reaches the time limit.
#[test]
fn run_stopped_at_a_limit_replays() {
    let place = Place::new("much_output");
    place.gcc(
        "much",
        "#include <stdio.h>\nstatic volatile int stop;\nint main(void) {\n  for (int i = 0; i < 600000; i++) puts(\"yes\");\n  \
         fflush(stdout);\n  while (!stop) {}\n}",
    );
    let limits = ["--max-output", "1", "--timeout", "3s", "-o", "t.snarl"];
    let (_, found) = place.exits(104, &[&["record"], &limits[..], &["--", "./much"]].concat());
    assert!(found.contains("--max-output"), "{found}");
    let report = place.json(0, &["replay", "--json", "t.snarl"]);
    assert_eq!(report["reproduced"], true, "{report}");
}

#[test]
fn run_that_exhausts_memory_is_stopped() {
    let place = Place::new("memory");
    place.gcc(
        "hoard",
        "#include <stdlib.h>\n#include <string.h>\nint main(void) { for (;;) memset(malloc(1 << 20), 1, 1 << 20); }",
    );
    let report = place.json(104, &["record", "--max-memory", "64", "--json", "--", "./hoard"]);
    assert_eq!(report["outcome"]["kind"], "undecided");
    assert_eq!(report["outcome"]["limit"], "memory");
    assert!(report["outcome"]["message"].as_str().expect("a message").contains("--max-memory"), "{report}");
}

/// A benign race, and a lock that hides another race in most orders.
const HARMLESS: &str = r#"
#include <pthread.h>
int last, hidden;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *first(void *a) {
  hidden = 1;
  pthread_mutex_lock(&lock);
  pthread_mutex_unlock(&lock);
  last = 1;
  return a;
}
static void *second(void *a) {
  last = 2;
  pthread_mutex_lock(&lock);
  pthread_mutex_unlock(&lock);
  hidden = 2;
  return a;
}
int main(void) {
  pthread_t t[2];
  pthread_create(&t[0], 0, first, 0);
  pthread_create(&t[1], 0, second, 0);
  for (int i = 0; i < 2; i++) pthread_join(t[i], 0);
}
"#;

#[test]
fn exhaustive_search_reports_races_it_meets() {
    let place = Place::new("chess");
    place.cc("harmless", HARMLESS);
    let (report, _) = place.exits(0, &["explore", "--strategy", "chess:2", "--", "./harmless"]);
    assert!(report.contains("with at most 2 preemptions: "), "{report}");
    assert!(report.contains("schedules, all explored"), "{report}");
    assert!(report.contains("2 data races seen"), "{report}");
    assert!(report.contains("write at harmless.c:9, write at harmless.c:13   (last)"), "{report}");
    assert!(report.contains("write at harmless.c:6, write at harmless.c:16   (hidden)"), "{report}");
    let found = place.json(0, &["explore", "--strategy", "chess:9", "--json", "--", "./harmless"]);
    // The order of unsynchronised accesses is not all that their races may change.
    assert_eq!(found["complete"]["because"], "only under sequential consistency", "{found}");
    assert_eq!(found["races"].as_array().map(Vec::len), Some(2), "{found}");
}

#[test]
fn race_is_reported_with_both_stacks_and_replays() {
    let place = Place::new("stacks");
    place.cc("counter", LOST_UPDATE);
    let (report, _) = place.exits(100, &["explore", "--fail-on", "race", "-o", "r.snarl", "--", "./counter"]);
    assert!(report.contains("stack of thread 0.1:") && report.contains("stack of thread 0.2:"), "{report}");
    let replayed = place.json(100, &["replay", "r.snarl", "--json"]);
    assert_eq!((&replayed["reproduced"], &replayed["identical"]), (&true.into(), &true.into()));
    assert_eq!(replayed["outcome"]["kind"], "race");
}

#[test]
fn schedule_points_can_be_named_and_sampled() {
    let place = Place::new("points");
    place.cc("counter", LOST_UPDATE);
    let events = |args: &[&str]| {
        let recorded = place.json(0, &[&["record", "--json"], args, &["--", "./counter"]].concat());
        recorded["stats"]["events"].as_u64().expect("a number")
    };
    let sync = events(&["--points", "sync"]);
    assert!(events(&[]) > sync, "all of them");
    assert_eq!(events(&["--points", "visit"]), sync + 4, "two threads read and write");
    assert_eq!(events(&["--points", "counter.c:5"]), sync + 4);
    assert_eq!(events(&["--points", "visit", "--one-in", "1000000"]), sync);
    let (_, stderr) = place.exits(2, &["record", "--points", "nowhere.c", "--", "./counter"]);
    assert!(stderr.contains("has no function, file or line `nowhere.c`"), "{stderr}");
}

#[test]
fn simplified_failure_replays() {
    let place = Place::new("simplified");
    place.cc("counter", LOST_UPDATE);
    place.json(
        100,
        &[
            "explore",
            "--strategy",
            "random",
            "--points",
            "all",
            "-o",
            "bug.snarl",
            "--json",
            "--",
            "./counter",
        ],
    );
    for mode in [&[][..], &["--static"], &["--dynamic"]] {
        let args = [&["simplify", "bug.snarl", "-o", "simple.snarl", "--json"], mode].concat();
        let report = place.json(0, &args);
        assert_eq!(report["outcome_preserved"], true, "{report}");
        let switches = |when: &str| report[when]["context_switches"].as_u64().expect("a number");
        assert!(switches("after") <= switches("before"), "{report}");
        if mode.is_empty() {
            assert_eq!(report["after"]["preemptive"], 1, "{report}");
        }
        let replayed = place.json(100, &["replay", "simple.snarl", "--json"]);
        assert_eq!((&replayed["reproduced"], &replayed["identical"]), (&true.into(), &true.into()));
    }
    place.json(0, &["record", "-o", "fine.snarl", "--json", "--", "./counter"]);
    let (_, stderr) = place.exits(2, &["simplify", "fine.snarl"]);
    assert!(stderr.contains("did not fail"), "{stderr}");
    // By its dependences, any run can be simplified.
    let seeds = (1..100).map(|seed: u32| seed.to_string());
    let mut fine = seeds.map(|seed| {
        place.ends(&[
            "record",
            "--seed",
            &seed,
            "--points",
            "all",
            "-o",
            "fine.snarl",
            "--json",
            "--",
            "./counter",
        ])
    });
    assert!(fine.any(|run| run.status.code() == Some(0)));
    let report = place.json(0, &["simplify", "--static", "fine.snarl", "-o", "simple.snarl", "--json"]);
    let switches = |when: &str| report[when]["context_switches"].as_u64();
    assert!(switches("after") < switches("before"), "{report}");
    assert_eq!(report["outcome_preserved"], true, "{report}");
    place.exits(0, &["replay", "simple.snarl"]);
}

/// A program that uses many features.
const BUSY: &str = r#"
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>
int main(void) {
#pragma omp parallel
  puts("parallel");
  if (!dlopen("nowhere", 1) && fork() == 0) popen("true", "r");
}
"#;

#[test]
fn doctor_reports_what_a_program_supports() {
    let place = Place::new("doctor");
    place.cc("counter", LOST_UPDATE);
    let (report, _) = place.exits(0, &["doctor", "./counter"]);
    assert!(report.contains("instrumented") && report.contains("ran under control"), "{report}");
    place.compile("busy", BUSY, &["gcc"], &["-fopenmp"]);
    let (report, _) = place.exits(0, &["doctor", "./busy"]);
    for part in [
        "critical sections, locks",
        "starts other processes",
        "fork, popen",
        "loads libraries",
        "not instrumented",
    ] {
        assert!(report.contains(part), "wanted `{part}`: {report}");
    }
    let (report, _) = place.exits(96, &["doctor", "./nowhere"]);
    assert!(report.contains("PROBLEM"), "{report}");
}

#[test]
fn rust_panic_count_loads_are_not_events() {
    let place = Place::new("panic_count");
    let program = place.program("rust/mutex_and_arc.rs");
    let trace = ["record", "--seed", "1", "-o", "t.snarl", "--", &format!("./{program}")];
    place.unsnarl(0, &trace);
    let report = place.unsnarl(0, &["show", "--all", "t.snarl"]);
    assert!(report.contains("compare-exchange"), "its mutexes are seen: {report}");
    assert!(!report.contains("panic_count"), "{report}");
}

#[test]
fn wrong_usage_is_named_before_the_first_run() {
    let place = Place::new("usage");
    for (args, message) in [
        (&["hunt", "./counter"][..], "put `--` before the program: unsnarl hunt -- ./counter"),
        (&["hunt", "--strategy", "chess:x", "--", "true"], "chess:K needs a number of preemptions, not `x`"),
        (&["explore", "--strategy", "pct:0", "--", "true"], "pct:D needs a depth of at least 1, not `0`"),
    ] {
        let (_, stderr) = place.exits(2, args);
        assert!(stderr.contains(message), "{stderr}");
        assert!(!stderr.contains("searching"), "{stderr}");
    }
}

#[test]
fn failure_is_reported_with_the_run_that_found_it() {
    let place = Place::new("first_run");
    place.cc("counter", LOST_UPDATE);
    let args = ["--runs", "40", "--points", "all", "--strategy", "random", "--", "./counter"];
    let (first, _) = place.exits(100, &[&["explore"][..], &args].concat());
    let run = first.split("in run ").nth(1).and_then(|rest| rest.split(' ').next()).expect("a run");
    let (all, _) = place.exits(100, &[&["explore", "--keep-going"][..], &args].concat());
    assert!(all.contains(&format!("of 40 runs, first in run {run} (random, seed ")), "{all}");
}
