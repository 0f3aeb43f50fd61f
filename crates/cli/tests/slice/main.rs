//! Slices of real programs: they contain the lines that led to the failure, and not the unrelated work.

#[path = "../common/mod.rs"]
mod common;
mod control_transfers;
mod golden;
mod mutants;
mod panics;
mod variables;

use common::Place;
use serde_json::Value;
use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    process::{Command, Stdio},
};

/// Compiles a program and finds a schedule in which it fails.
fn fail(place: &Place, source: &Path, flags: &[&str]) {
    let compiler = if source.extension().is_some_and(|e| e == "cpp") { "c++" } else { "cc" };
    let usual = [compiler, "-g", "-pthread", "-o", "program", source.to_str().expect("a path")];
    place.unsnarl(0, &[&usual, flags].concat());
    place.unsnarl(100, &["explore", "--runs", "3000", "--seed", "1", "-o", "t.snarl", "--", "./program"]);
}

#[track_caller]
fn slice_of(place: &Place, args: &[&str]) -> Value {
    place.json(0, &[&["slice", "t.snarl", "--json"], args].concat())
}

/// Returns the texts of the lines of a slice.
fn texts(slice: &Value) -> Vec<String> {
    let lines = slice["lines"].as_array().expect("lines");
    lines.iter().map(|line| line["text"].as_str().unwrap_or_default().trim().to_owned()).collect()
}

/// Compiles a program at several levels of optimisation; its slice has lines with the first texts and none with the
/// others.
fn explains(source: &str, causes: &[&str], unrelated: &[&str]) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../programs").join(source);
    let name = source.file_name().expect("a name").to_string_lossy().into_owned();
    for level in ["-O0", "-O1", "-O2"] {
        let place = Place::new(&format!("{name}{level}"));
        fail(&place, &source, &[level]);
        let slice = slice_of(&place, &[]);
        let lines = texts(&slice);
        for cause in causes {
            assert!(
                lines.iter().any(|line| line.contains(cause)),
                "{name} {level}: no `{cause}` in {lines:#?}"
            );
        }
        for other in unrelated {
            assert!(
                !lines.iter().any(|line| line.contains(other)),
                "{name} {level}: `{other}` in {lines:#?}"
            );
        }
    }
}

#[test]
fn account_slice_has_unlocked_read_and_missed_deposit() {
    explains("c/account.c", &["int current = balance", "balance = current - 30", "balance += 50"], &[]);
}

#[test]
fn check_then_act_slice_has_both_checks_and_withdrawals() {
    explains("c/check_then_act.c", &["get_balance() >= 80", "balance -= 80", "get_balance() < 0"], &[]);
}

#[test]
fn bluetooth_slice_has_early_flag_read() {
    explains("c/bluetooth.c", &["atomic_load(&is_stopping)", "is_stopped = true"], &[]);
}

#[test]
fn lost_update_slice_has_both_updates() {
    explains("c/lost_update.c", &["assert"], &[]);
}

#[test]
fn exit_status_slice_has_origin_of_status() {
    explains("c/exit_status_three.c", &["status = *(int *)value", "values[2] = { 3, 0 }"], &[]);
}

#[test]
fn abba_slice_has_four_locks() {
    explains("c/abba_deadlock.c", &["pthread_mutex_lock(&a)", "pthread_mutex_lock(&b)"], &["printf"]);
}

/// A log that is closed and reopened while another thread logs. A third thread works at the same time.
const LOG: &str = r#"
#include <pthread.h>
#include <stdlib.h>
enum { CLOSED, OPEN };
static volatile int log_state = OPEN;
static int logged;
static int sums[64];
static void *flush(void *a)
{
    log_state = CLOSED; /* CAUSE */
    log_state = OPEN; /* CAUSE */
    return a;
}
static void *insert(void *a)
{
    if (log_state == OPEN) /* CAUSE */
        logged++;
    else
        logged = -1;
    return a;
}
static void *work(void *a)
{
    for (int i = 1; i < 64; i++)
        sums[i] = sums[i - 1] + i; /* UNRELATED */
    return a;
}
int main(void)
{
    pthread_t threads[3];
    pthread_create(&threads[0], NULL, flush, NULL);
    pthread_create(&threads[1], NULL, insert, NULL);
    pthread_create(&threads[2], NULL, work, NULL); /* UNRELATED */
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    if (logged < 0)
        abort(); /* CAUSE */
    return 0;
}
"#;

#[test]
fn slice_can_start_from_a_line() {
    let place = Place::new("at");
    place.write("case.c", LOG);
    fail(&place, Path::new("case.c"), &["-O1"]);
    let line = |text: &str| (1..).zip(LOG.lines()).find(|(_, l)| l.contains(text)).expect("it is there").0;
    let sums: u64 = line("sums[i - 1]");
    let slice = slice_of(&place, &["--at", &format!("case.c:{sums}#3")]);
    assert_eq!(slice["criterion"]["line"], sums);
    assert!(slice["lines"].as_array().expect("lines").iter().all(|l| l["line"] != line("logged = -1")));
    // Only a variable: other values that the line used are left out.
    let closes = line("log_state = CLOSED");
    let insert = line("if (log_state == OPEN)");
    let slice = slice_of(&place, &["--at", &format!("case.c:{insert}:log_state")]);
    let found: Vec<u64> =
        slice["lines"].as_array().expect("lines").iter().filter_map(|l| l["line"].as_u64()).collect();
    assert!(found.contains(&closes) && !found.contains(&insert), "{found:?}");
    place.unsnarl(2, &["slice", "t.snarl", "--at", &format!("case.c:{insert}:nothing")]);
    place.unsnarl(2, &["slice", "t.snarl", "--at", &format!("case.c:{insert}#99")]);
    place.unsnarl(96, &["slice", "t.snarl", "--max-trace", "0"]);
    place.unsnarl(2, &["slice", "t.snarl", "--at", "case.c:1"]);
    place.unsnarl(2, &["slice", "t.snarl", "--at", "case.c:9999"]);
    place.unsnarl(2, &["slice", "t.snarl", "--at", "nonsense"]);
    assert!(place.unsnarl(0, &["slice", "t.snarl", "--dot"]).starts_with("digraph"));
}

/// A value that comes from an argument, one that comes from elsewhere, and one that no code needs.
const LOCALS: &str = r#"
#include <stdlib.h>
static int other = 9;
__attribute__((noinline)) static int sum(int first, int *list)
{
    int unused = first * 3;
    int total = first;
    int beside = list[1];
    total += list[0]; /* HERE */
    beside += other; /* BESIDE */
    (void)unused;
    return total * 100 + beside; /* THERE */
}
int main(int argc, char **argv)
{
    int list[2];
    list[0] = argc + 1; /* LIST */
    list[1] = argc + 2; /* OTHER */
    return sum(argc + 3, list);
}
"#;

#[test]
fn slice_can_start_from_a_local_variable() {
    let place = Place::new("locals");
    place.write("case.c", LOCALS);
    let line =
        |mark: &str| (1..).zip(LOCALS.lines()).find(|(_, l)| l.contains(mark)).expect("it is there").0 as u64;
    for (compiler, level) in [("gcc", "-O0"), ("gcc", "-O2"), ("clang", "-O0"), ("clang", "-O1")] {
        let mut command = Command::new(compiler);
        command.args(["-g", "-w", level, "-o", "program", "case.c"]).current_dir(&place.0);
        assert!(command.status().expect("a compiler").success());
        place.unsnarl(100, &["record", "-o", "t.snarl", "--", "./program"]);
        let slice = slice_of(&place, &["--at", &format!("case.c:{}:total", line("HERE"))]);
        let lines = slice["lines"].as_array().expect("lines");
        let found: Vec<u64> = lines.iter().filter_map(|l| l["line"].as_u64()).collect();
        assert!(found.contains(&line("LIST")), "{compiler} {level}: {found:?}");
        let others = [line("OTHER"), line("BESIDE"), line("THERE")];
        assert!(!others.iter().any(|other| found.contains(other)), "{compiler} {level}: {found:?}");
        let nowhere = format!("case.c:{}:unused", line("HERE"));
        match level {
            "-O0" => {
                slice_of(&place, &["--at", &nowhere]);
            }
            _ => {
                let output = place.ends(&["slice", "t.snarl", "--at", &nowhere]);
                let output_text = String::from_utf8_lossy(&output.stderr).into_owned();
                assert_eq!(output.status.code(), Some(2), "{compiler} {level}: {output_text}");
                assert!(output_text.contains("the local variable `unused` has "), "{output_text}");
            }
        }
    }
}

/// Ends soon by default, and runs long with an argument.
const LONG: &str = r#"
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
static volatile unsigned long rounds;
int main(void)
{
    close(open("started", O_CREAT | O_WRONLY, 0600));
    while (rounds < 100 || access("long", F_OK) == 0)
        for (int i = 0; i < 1000; i++)
            rounds++;
    return 3;
}
"#;

#[test]
fn slicing_can_be_interrupted() {
    let place = Place::new("stopped");
    place.write("case.c", LONG);
    place.unsnarl(0, &["cc", "-g", "-O1", "case.c", "-o", "program"]);
    place.unsnarl(100, &["record", "-o", "t.snarl", "--", "./program"]);
    place.write("long", "");
    fs::remove_file(place.path("started")).expect("it was made");
    let slice = place.start(&["slice", "t.snarl"]);
    while !place.path("started").exists() {
        std::thread::yield_now();
    }
    let killed = Command::new("kill").args(["-TERM", &slice.id().to_string()]).status();
    assert!(killed.expect("kill runs").success());
    let output = slice.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(130));
    assert!(String::from_utf8_lossy(&output.stderr).contains("interrupted"));
}

#[test]
fn slice_of_successful_run_requires_a_line() {
    let place = Place::new("no-failure");
    place.write("fine.c", "int main(void) { return 0; }");
    place.unsnarl(0, &["cc", "-g", "fine.c", "-o", "fine"]);
    place.unsnarl(0, &["record", "-o", "t.snarl", "--", "./fine"]);
    place.unsnarl(2, &["slice", "t.snarl"]);
}

#[test]
fn functions_without_summary_are_named() {
    let place = Place::new("unknown");
    let source = "#include <stdlib.h>\n#include <fnmatch.h>\n\
        int main(void) { if (fnmatch(\"a*\", \"abc\", 0) == 0) abort(); return 0; }\n";
    place.write("case.c", source);
    place.unsnarl(0, &["cc", "-g", "-O1", "case.c", "-o", "program"]);
    place.unsnarl(100, &["record", "-o", "t.snarl", "--", "./program"]);
    let slice = slice_of(&place, &[]);
    assert_eq!(slice["unknown"][0]["function"], "fnmatch");
}

#[test]
fn uninstrumented_programs_can_be_sliced() {
    let place = Place::new("plain");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../programs/c/check_then_act.c");
    let mut gcc = Command::new("gcc");
    gcc.args(["-g", "-O1", "-pthread", "-o"]).arg(place.path("program")).arg(source);
    assert!(gcc.status().expect("gcc runs").success());
    place.unsnarl(100, &["explore", "--runs", "3000", "--seed", "1", "-o", "t.snarl", "--", "./program"]);
    let lines = texts(&slice_of(&place, &[]));
    assert!(lines.iter().any(|line| line.contains("balance -= 80")), "{lines:#?}");
}

/// Threads that serve their own requests, and two that share a log.
const SERVER: &str = r#"
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
static uint64_t tables[4][64];
static char text[64];
static int used;
static void *serve(void *id)
{
    for (uint64_t i = 0; i < 2000; i++)
        tables[(intptr_t)id][i % 64] += i; /* UNRELATED */
    return NULL;
}
static void *append(void *what)
{
    int at = used; /* CAUSE */
    memcpy(text + at, what, 4);
    used = at + 4; /* CAUSE */
    return NULL;
}
int main(void)
{
    pthread_t threads[6];
    for (intptr_t i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, serve, (void *)i);
    pthread_create(&threads[4], NULL, append, "aaaa");
    pthread_create(&threads[5], NULL, append, "bbbb");
    for (int i = 0; i < 6; i++)
        pthread_join(threads[i], NULL);
    if (used != 8)
        abort();
    return 0;
}
"#;

#[test]
fn reduced_trace_has_the_same_slice() {
    let place = Place::new("server");
    place.write("case.c", SERVER);
    fail(&place, Path::new("case.c"), &["-O1"]);
    let (whole, part) = (slice_of(&place, &["--reduce", "never"]), slice_of(&place, &["--reduce", "always"]));
    for same in ["lines", "race_edges", "criterion", "executed_lines", "unknown"] {
        assert_eq!(whole[same], part[same], "{same}");
    }
    assert_eq!(
        (&part["reduction"]["before"]["threads"], &part["reduction"]["after"]["threads"]),
        (&7.into(), &3.into())
    );
    let instructions = |slice: &Value| slice["instructions"].as_u64().expect("instructions");
    assert!(
        instructions(&part) * 20 < instructions(&whole),
        "{} {}",
        instructions(&part),
        instructions(&whole)
    );
    // A prefix of each thread's steps remains unchanged.
    let by_thread = |reduce: &str| {
        let mut threads: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for line in place.unsnarl(0, &["slice", "t.snarl", "--dump", "--reduce", reduce]).lines() {
            let (thread, step) = line.split_once(' ').expect("a thread");
            threads.entry(thread.to_owned()).or_default().push(step.to_owned());
        }
        threads
    };
    let all = by_thread("never");
    for (thread, steps) in by_thread("always") {
        assert!(all[&thread].starts_with(&steps), "thread {thread}");
    }
}

/// Programs of all kinds, whose translated code is compared with single-stepping.
const COMPARED: &[&str] = &[
    "c/account.c",
    "c/atomics_all_sizes.c",
    "c/barrier_serial_thread.c",
    "c/c11_threads.c",
    "c/cancel_async.c",
    "c/cancel_cond_wait.c",
    "c/children.c",
    "c/cond_broadcast_gate.c",
    "c/crash_handler_returns.c",
    "c/double_free.c",
    "c/exit_runs_cleanups.c",
    "c/handlers_wait_for_each_other.c",
    "c/heap_leftovers.c",
    "c/key_destructors.c",
    "c/main_leaves_first.c",
    "c/mutex_robust.c",
    "c/once.c",
    "c/qsort_mt.c",
    "c/rwlock_timed.c",
    "c/sem_ping_pong.c",
    "c/sigaltstack_per_thread.c",
    "c/signal_actions.c",
    "c/stack_overflow.c",
    "c/stringbuffer.c",
    "c/tls_per_thread.c",
    "cpp/call_once_throws.cpp",
    "cpp/condition_variables.cpp",
    "cpp/exceptions_across_switches.cpp",
    "cpp/futures.cpp",
    "cpp/static_guard_throws.cpp",
    "cpp/thread_local_destructors.cpp",
    "cpp/uncaught_exception.cpp",
    "rust/channels.rs",
    "rust/panic_joined.rs",
    "rust/scoped_threads.rs",
    "rust/thread_local_drop.rs",
];

#[test]
fn translated_trace_equals_single_step_trace() {
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../programs");
    let place = Place::new("compared");
    for (number, source) in COMPARED.iter().enumerate() {
        let program = format!("p{number}");
        let path = programs.join(source);
        let level = ["-O0", "-O1", "-O2", "-O3"][number % 4];
        let mut compiler = match source.rsplit('.').next() {
            Some("rs") => Command::new("rustc"),
            Some("cpp") => Command::new("g++"),
            _ => Command::new("gcc"),
        };
        if source.ends_with(".rs") {
            compiler.args([
                "-g",
                "--edition",
                "2024",
                "-C",
                if number % 2 == 0 { "opt-level=0" } else { "opt-level=2" },
            ]);
        } else {
            // Every other one at fixed addresses.
            compiler.args(["-g", level, "-pthread", if number % 2 == 0 { "-no-pie" } else { "-pie" }]);
        }
        compiler.arg("-o").arg(place.path(&program)).arg(&path).stderr(Stdio::null());
        assert!(compiler.status().expect("a compiler").success(), "{source}");
        let trace = format!("{program}.snarl");
        place.ends(&["record", "--seed", "3", "-o", &trace, "--", &format!("./{program}")]);
        let translated = place.unsnarl(0, &["slice", &trace, "--dump"]);
        let stepped = place.unsnarl(0, &["slice", &trace, "--dump", "--step"]);
        let differs = translated.lines().zip(stepped.lines()).position(|(a, b)| a != b);
        assert_eq!(differs, None, "{source}");
        assert_eq!(translated.lines().count(), stepped.lines().count(), "{source}");
    }
}
