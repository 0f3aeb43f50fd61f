//! `unsnarl simplify` and `unsnarl verify` from the outside.

mod common;

use common::Place;
use serde_json::Value;
use std::{fs, process::Command};

/// Creates a place with this program.
#[track_caller]
fn built(name: &str, source: &str) -> Place {
    let place = Place::new(name);
    place.write("prog.c", source);
    place.exits(0, &["cc", "-O1", "-g", "-Wall", "-Werror", "-pthread", "-o", "prog", "prog.c"]);
    place
}

/// Returns a program that loses a deposit; `begin` runs before the threads.
fn account(begin: &str) -> String {
    format!(
        r#"
#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int balance = 100;
static FILE *journal;

static void note(const char *what)
{{
    if (journal) {{
        fprintf(journal, "%s\n", what);
        fflush(journal);
    }}
}}

static void *deposit(void *unused)
{{
    for (int i = 0; i < 3; i++) {{
        pthread_mutex_lock(&mutex);
        balance += 50;
        note("deposit");
        pthread_mutex_unlock(&mutex);
    }}
    return unused;
}}

static void *withdraw(void *unused)
{{
    int current = balance;
    pthread_mutex_lock(&mutex);
    balance = current - 30;
    note("withdraw");
    pthread_mutex_unlock(&mutex);
    return unused;
}}

static inline void compute(void)
{{
    volatile long sum = 0;
    for (long i = 0; i < 10 * 1000 * 1000; i++)
        sum += i;
}}

int main(void)
{{
    {begin}
    pthread_t depositor, withdrawer;
    pthread_create(&depositor, NULL, deposit, NULL);
    pthread_create(&withdrawer, NULL, withdraw, NULL);
    pthread_join(depositor, NULL);
    pthread_join(withdrawer, NULL);
    if (journal)
        printf("journal has %ld bytes\n", ftell(journal));
    fflush(stdout);
    assert(balance == 220);
    return 0;
}}
"#
    )
}

#[test]
fn runs_from_snapshots_equal_runs_from_start() {
    // Before the threads it computes, writes to a file that it keeps open, and to its standard output.
    let begin = r#"compute(); journal = tmpfile(); note("begin"); puts("begun"); fflush(stdout);"#;
    let place = built("snapshots", &account(begin));
    place.json(100, &["explore", "--seed", "3", "-o", "bug.snarl", "--json", "--", "./prog"]);
    let simplify = |name: &str, more: &[&str]| {
        let args = ["simplify", "bug.snarl", "--json", "-o", name];
        let report = place.json(0, &[&args, more].concat());
        assert_eq!(report["outcome_preserved"], true, "{report}");
        assert_eq!(report["snapshots"]["refused"], Value::Null, "{report}");
        report
    };
    let with = simplify("with.snarl", &[]);
    let without = simplify("without.snarl", &["--no-snapshots"]);
    assert!(with["snapshots"]["runs"].as_u64() > Some(0), "{with}");
    assert_eq!(without["snapshots"]["runs"], 0, "{without}");
    assert_eq!((&with["after"], &with["executions"]), (&without["after"], &without["executions"]));
    let shown = ["with.snarl", "without.snarl"].map(|trace| place.exits(0, &["show", "--all", trace]).0);
    assert_eq!(shown[0], shown[1]);
    // Output of the run before the snapshot and after it.
    let replayed = place.exits(100, &["replay", "with.snarl"]).0;
    assert_eq!(replayed, "begun\njournal has 39 bytes\n");
}

#[test]
fn single_threaded_start_does_not_prevent_simplification() {
    // Rust's library does the same.
    let begin = "struct pollfd fds[] = {{0, 0, 0}, {1, 0, 0}}; if (poll(fds, 2, 0) < 0) abort(); signal(SIGPIPE, SIG_IGN);";
    let source = format!("#include <poll.h>\n#include <signal.h>\n{}", account(begin));
    let place = built("start-up", &source);
    let record = ["record", "--points", "all", "--json", "-o", "bug.snarl"];
    let fails = (1..100).map(|seed: u32| seed.to_string()).find(|seed| {
        let program = ["--seed", seed, "--", "./prog"];
        place.ends(&[&record[..], &program[..]].concat()).status.code() == Some(100)
    });
    assert!(fails.is_some());
    let report = place.json(0, &["simplify", "bug.snarl", "--json", "-o", "simple.snarl"]);
    assert_eq!(report["after"]["preemptive"], 1, "{report}");
    assert_eq!(report["outcome_preserved"], true, "{report}");
}

#[test]
fn program_without_snapshots_reports_reason_and_runs_from_start() {
    let pairs = [
        ("int ends[2]; if (pipe(ends)) abort(); compute();", "it has a pipe open"),
        (
            "int ends[2]; if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends)) abort(); compute();",
            "it has a socket open",
        ),
    ];
    for (at, (begin, reason)) in pairs.into_iter().enumerate() {
        let place = built(&format!("refused-{at}"), &account(begin));
        place.json(100, &["explore", "-o", "bug.snarl", "--json", "--", "./prog"]);
        let report = place.json(0, &["simplify", "bug.snarl", "--json", "-o", "simple.snarl"]);
        assert_eq!(
            (&report["snapshots"]["refused"], &report["snapshots"]["runs"]),
            (&reason.into(), &0.into())
        );
        assert_eq!(report["outcome_preserved"], true);
    }
}

#[test]
fn proof_can_be_verified() {
    let place = built("proved", &account(""));
    place.json(100, &["explore", "--points", "all", "-o", "bug.snarl", "--json", "--", "./prog"]);
    let report = place.json(0, &["simplify", "bug.snarl", "--prove", "--json", "-o", "simple.snarl"]);
    assert_eq!((&report["proved"], &report["unobserved"]), (&true.into(), &false.into()), "{report}");
    assert!(report["proof"].as_str().is_some_and(|file| file.ends_with("simple.proof")), "{report}");

    // The need of the one preemption, in the simplification's report and whenever the trace is shown.
    let needs = report["preemptions"].as_array().expect("a list");
    assert_eq!(needs.len() as u64, report["after"]["preemptive"].as_u64().expect("a number"));
    assert_eq!((&needs[0]["line"], &needs[0]["without"]), (&35.into(), &"the program ends normally".into()));
    let shown = place.exits(0, &["show", "simple.snarl"]).0;
    assert!(shown.contains("at prog.c:35; without this preemption, the program ends normally"), "{shown}");

    let (output_text, _) = place.exits(0, &["verify", "simple.snarl"]);
    assert!(output_text.starts_with("the proof holds"), "{output_text}");
    assert_eq!(place.json(0, &["verify", "simple.snarl", "--json"])["holds"], true);
    // A proof of another trace, and one with other states.
    let (output_text, _) = place.exits(103, &["verify", "bug.snarl", "--proof", "simple.proof"]);
    assert!(output_text.contains("prove this one again"), "{output_text}");
    let proof = place.path("simple.proof");
    let text = fs::read_to_string(&proof).expect("a proof");
    let states = serde_json::from_str::<Value>(&text).expect("JSON")["states"].as_u64().expect("a number");
    fs::write(&proof, text.replace(&format!("\"states\": {states}"), "\"states\": 1"))
        .expect("it can be written");
    let (output_text, _) = place.exits(103, &["verify", "simple.snarl"]);
    assert!(output_text.contains("does not hold"), "{output_text}");
    let (_, output_text) = place.exits(96, &["verify", "bug.snarl"]);
    assert!(output_text.contains("`unsnarl simplify --prove` makes one"), "{output_text}");
}

#[test]
fn failure_of_user_check_is_simplified_with_the_check() {
    let place =
        built("check", &account("").replace("assert(balance == 220);", r#"printf("%d\n", balance);"#));
    let search = ["explore", "--fail-if-stdout", "^70$", "-o", "bug.snarl", "--json", "--", "./prog"];
    place.json(100, &search);
    let (_, output_text) = place.exits(2, &["simplify", "bug.snarl"]);
    assert!(output_text.contains("give the same option again"), "{output_text}");
    let simplify = ["simplify", "bug.snarl", "--fail-if-stdout", "^70$", "--json", "-o", "simple.snarl"];
    let report = place.json(0, &simplify);
    assert!(
        report["after"]["context_switches"].as_u64() <= report["before"]["context_switches"].as_u64(),
        "{report}"
    );
    assert_eq!(report["outcome_preserved"], true, "{report}");
}

#[test]
fn hidden_dependence_is_detected() {
    let place = built("unobserved", &account(""));
    // Without plain accesses, no event shows that the balance is read early.
    let search =
        ["explore", "--points", "sync", "--strategy", "random", "-o", "bug.snarl", "--json", "--", "./prog"];
    place.json(100, &search);
    let (_, output_text) = place.exits(0, &["simplify", "--static", "bug.snarl"]);
    assert!(
        output_text.contains("a hidden dependence") && output_text.contains("ended normally"),
        "{output_text}"
    );
    let report = place.json(0, &["simplify", "bug.snarl", "--prove", "--json", "-o", "simple.snarl"]);
    assert_eq!((&report["unobserved"], &report["proved"]), (&true.into(), &false.into()), "{report}");
    let dynamic_only = place.json(0, &["simplify", "bug.snarl", "--dynamic", "--json", "-o", "alone.snarl"]);
    assert!(
        report["after"]["context_switches"].as_u64() <= dynamic_only["after"]["context_switches"].as_u64()
    );
}

#[test]
fn arbitrary_merge_order_keeps_the_failure() {
    let place = built("merges", &account(""));
    place.json(100, &["explore", "--points", "all", "-o", "bug.snarl", "--json", "--", "./prog"]);
    for seed in ["1", "2"] {
        let args = ["simplify", "bug.snarl", "--static", "--merges", seed, "--json", "-o", "simple.snarl"];
        let report = place.json(0, &args);
        assert_eq!(report["outcome_preserved"], true, "{report}");
        assert!(
            report["after"]["context_switches"].as_u64() <= report["before"]["context_switches"].as_u64()
        );
    }
    place.exits(2, &["simplify", "bug.snarl", "--merges", "1"]);
}

#[test]
fn interrupted_simplification_keeps_best_trace() {
    // Each run is slow, and its check writes to a file; a pipe prevents snapshots.
    let begin = r#"compute(); compute(); int ends[2]; if (pipe(ends)) abort();"#;
    let place = built("interrupted", &account(begin));
    place.json(100, &["explore", "--points", "all", "-o", "bug.snarl", "--json", "--", "./prog"]);
    // A proof takes hundreds of runs.
    let runs = || fs::metadata(place.path("runs")).map_or(0, |file| file.len());
    let before = runs();
    let check = ["--check", "echo r >> runs"];
    let simplify = ["simplify", "bug.snarl", "--prove", "--json", "-o", "simple.snarl"];
    let simplify = place.start(&[&simplify[..], &check].concat());
    while runs() < before + 10 {
        std::thread::yield_now();
    }
    let interrupted = Command::new("kill").args(["-INT", &simplify.id().to_string()]).status();
    assert!(interrupted.is_ok_and(|status| status.success()));
    let output = simplify.wait_with_output().expect("it ends");
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((output.status.code(), &report["stopped"]), (Some(130), &"interrupted".into()), "{report}");
    assert_eq!(report["outcome_preserved"], true, "{report}");
    place.exits(100, &["replay", "simple.snarl"]);
}

#[test]
fn livelock_is_reduced_to_its_rounds() {
    let place = built("livelock", include_str!("../../../programs/c/after_you_livelock.c"));
    let record =
        ["record", "--seed", "1", "--max-spins", "20000", "-o", "bug.snarl", "--json", "--", "./prog"];
    let report = place.json(100, &record);
    assert_eq!(report["outcome"]["kind"], "livelock", "{report}");
    let simplify = |from: &str, to: &str| place.json(0, &["simplify", from, "--json", "-o", to]);
    let once = simplify("bug.snarl", "once.snarl");
    assert_eq!((&once["stopped"], &once["outcome_preserved"]), (&Value::Null, &true.into()), "{once}");
    let figure = |report: &Value, name: &str| report["after"][name].as_u64().expect("a number");
    assert!(figure(&once, "events") < 40, "{once}");
    let removed: u64 =
        once["by_operation"].as_object().expect("an object").values().filter_map(Value::as_u64).sum();
    let before = once["before"]["context_switches"].as_u64().expect("a number");
    assert_eq!(removed, before - figure(&once, "context_switches"), "{once}");
    place.exits(100, &["replay", "once.snarl"]);
    let again = simplify("once.snarl", "again.snarl");
    assert_eq!(again["after"], once["after"]);
    let (page, _) = place.exits(0, &["simplify", "once.snarl", "--prove", "-o", "again.snarl"]);
    assert!(page.contains("not proved: a livelock never ends"), "{page}");
}

#[test]
fn realistic_programs_end_no_worse_than_by_tinertia_and_unchanged_by_another_simplification() {
    let programs = [
        ("session_cache", include_str!("../../../programs/realistic/session_cache.c")),
        ("order_queue", include_str!("../../../programs/realistic/order_queue.c")),
        ("shared_buffers", include_str!("../../../programs/realistic/shared_buffers.c")),
    ];
    for (name, source) in programs {
        let place = built(name, source);
        place.json(100, &["explore", "--strategy", "random", "-o", "bug.snarl", "--json", "--", "./prog"]);
        let simplify = |args: &[&str]| {
            let report = place.json(0, &[&["simplify", "--json"], args].concat());
            let figure = |name: &str| report["after"][name].as_u64().expect("a number");
            ["context_switches", "preemptive", "events"].map(figure)
        };
        let ours = simplify(&["bug.snarl", "-o", "simple.snarl"]);
        let theirs = simplify(&["bug.snarl", "--dynamic", "-o", "dynamic.snarl"]);
        assert!(ours[..2] <= theirs[..2], "{name}: {ours:?}, and Tinertia {theirs:?}");
        assert_eq!(simplify(&["simple.snarl", "-o", "again.snarl"]), ours, "{name}");
    }
}

#[test]
fn simplification_without_time_keeps_the_trace() {
    let place = built("no_time", include_str!("../../../programs/c/after_you_livelock.c"));
    let record =
        ["record", "--seed", "1", "--max-spins", "20000", "-o", "bug.snarl", "--json", "--", "./prog"];
    place.json(100, &record);
    for method in ["--effort=2", "--dynamic"] {
        let report =
            place.json(0, &["simplify", "bug.snarl", method, "--time", "0s", "--json", "-o", "simple.snarl"]);
        assert_eq!(report["stopped"], "time or runs are used up", "{report}");
        assert_eq!(report["outcome_preserved"], true, "{report}");
        place.exits(100, &["replay", "simple.snarl"]);
    }
    let hunt =
        ["hunt", "--max-spins", "20000", "--simplify-time", "0s", "--slice-time", "0s", "--", "./prog"];
    let (page, _) = place.exits(100, &hunt);
    assert!(page.contains("; stopped: time or runs are used up"), "{page}");
}

#[test]
fn more_effort_is_never_worse() {
    let place = built("effort", &account(""));
    place.json(100, &["explore", "-o", "bug.snarl", "--json", "--", "./prog"]);
    let cost = |effort: &str| {
        let report =
            place.json(0, &["simplify", "bug.snarl", "--effort", effort, "--json", "-o", "simple.snarl"]);
        let figure = |name: &str| report["after"][name].as_u64().expect("a number");
        (figure("context_switches"), figure("preemptive"))
    };
    let costs = ["0", "1", "2", "3"].map(cost);
    assert!(costs.is_sorted_by(|less, more| less >= more), "{costs:?}");
}

#[test]
fn long_imported_trace_is_simplified_while_streaming() {
    let place = Place::new("long");
    // More than are held in memory.
    place.exits(0, &["bench-static", "--events", "1100000", "--save", "long.snarl"]);
    let once = place.json(0, &["simplify", "--static", "--json", "-o", "once.snarl", "long.snarl"]);
    let (before, after) = (&once["before"], &once["after"]);
    assert_eq!((&before["events"], &before["threads"]), (&after["events"], &after["threads"]));
    let switches = |stats: &Value| stats["context_switches"].as_u64().expect("a number");
    assert!(switches(before) > 100_000 && switches(after) * 4 < switches(before), "{once}");
    // The file is a trace with these figures, and it cannot be simplified further.
    let again = place.json(0, &["simplify", "--static", "--json", "-o", "again.snarl", "once.snarl"]);
    assert_eq!((&again["before"], &again["after"]), (after, after));
    let arbitrary = place
        .json(0, &["simplify", "--static", "--merges", "7", "--json", "-o", "other.snarl", "long.snarl"]);
    assert!(switches(&arbitrary["after"]) > switches(after), "{arbitrary}");
    // A truncated file is reported, and leaves nothing behind.
    let mut bytes = fs::read(place.path("long.snarl")).expect("the trace");
    bytes.truncate(bytes.len() / 2);
    place.write("cut.snarl", bytes);
    let (_, stderr) = place.exits(96, &["simplify", "--static", "-o", "none.snarl", "cut.snarl"]);
    assert!(stderr.contains("cut.snarl"), "{stderr}");
    let mut left: Vec<_> = fs::read_dir(&place.0)
        .expect("the directory")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("a name"))
        .collect();
    left.sort();
    assert_eq!(left, [".unsnarl", "again.snarl", "cut.snarl", "long.snarl", "once.snarl", "other.snarl"]);
}
