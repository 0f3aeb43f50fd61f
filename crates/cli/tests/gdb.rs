//! Debugging a replay with gdb, driven as a user would.

mod common;

use common::{Place, UNSNARL};
use serde_json::Value;
use std::{
    fs,
    io::Write,
    process::{Command, Stdio},
};

/// Two threads deposit to one account without a lock; each holds the balance that it read in a local variable.
const ACCOUNT: &str = r#"#include <assert.h>
#include <pthread.h>
#include <stdio.h>
static int balance = 100;
static void *deposit(void *amount) {
  int before = balance;
  int paid = *(int *)amount;
  balance = before + paid;
  return 0;
}
int main(void) {
  pthread_t first, second;
  int ten = 10, twenty = 20;
  pthread_create(&first, 0, deposit, &ten);
  pthread_create(&second, 0, deposit, &twenty);
  pthread_join(first, 0);
  pthread_join(second, 0);
  printf("balance %d\n", balance);
  fflush(stdout);
  assert(balance == 130);
  return 0;
}
"#;

/// Creates a directory with the account as `prog`.
fn account(name: &str) -> Place {
    let place = Place::new(name);
    place.write("account.c", ACCOUNT);
    place.unsnarl(0, &["cc", "-O0", "-g", "-pthread", "account.c", "-o", "prog"]);
    place
}

/// Creates a directory with a program of `programs/` as `prog`.
fn with(name: &str, program: &str) -> Place {
    let place = Place::new(name);
    let built = place.program(program);
    fs::rename(place.path(&built), place.path("prog")).expect("what was built");
    place
}

impl Place {
    /// Finds a failure.
    fn explore(&self) {
        self.unsnarl(100, &["explore", "--seed", "2", "-o", "failing.snarl", "--json", "--", "./prog"]);
    }

    /// Returns gdb's output for these commands, with the program's output among it.
    fn gdb(&self, trace: &str, commands: &[&str]) -> String {
        let mut command = self.command(UNSNARL, &["replay", trace, "--gdb", "--", "-nx", "-batch"]);
        // Both streams of gdb, in order.
        let (mut reader, writer) = std::io::pipe().expect("a pipe");
        command.stdout(writer.try_clone().expect("a pipe")).stderr(writer);
        for line in commands {
            command.args(["-ex", line]);
        }
        let mut child = command.spawn().expect("unsnarl runs");
        drop(command);
        let mut output_text = Vec::new();
        std::io::Read::read_to_end(&mut reader, &mut output_text).expect("what gdb says");
        child.wait().expect("gdb ends");
        String::from_utf8_lossy(&output_text).into_owned()
    }
}

/// Checks that all of these texts occur, in this order.
#[track_caller]
fn expect_output(output_text: &str, expected: &[&str]) {
    let mut rest = output_text;
    for &text in expected {
        let at = rest.find(text).unwrap_or_else(|| panic!("no `{text}` where expected in\n{output_text}"));
        rest = &rest[at + text.len()..];
    }
}

#[test]
fn gdb_stops_at_preemption_and_reaches_recorded_outcome() {
    let place = account("preemption");
    place.explore();
    place.unsnarl(0, &["simplify", "failing.snarl", "-o", "simple.snarl", "--json"]);
    let output_text = place.gdb(
        "simple.snarl",
        &[
            "unsnarl next-preemption",
            "unsnarl where",
            "info threads",
            // The preempted thread has read 100 and not yet written.
            "unsnarl thread 0.1",
            "print before",
            "print *(int *)amount",
            "unsnarl thread 0",
            "print twenty",
            "unsnarl thread 0.3",
            "continue",
            "continue",
            "continue",
            "print balance",
            "continue",
        ],
    );
    expect_output(
        &output_text,
        &[
            "event 0 of 13: 0 main, start at account.c:11",
            "0.1 → 0.2: preempts 0.1",
            "event 5 of 13: 0.2 deposit, start at account.c:5",
            "0.2 deposit runs; next is event 5 of 13: 0.2 deposit, start",
            "the next switch is at event 9 of 13: 0.1 deposit, write balance (was 120) at account.c:8",
            "\"0 main\"",
            "\"0.1 deposit\"",
            "\"0.2 deposit\"",
            "= 100",
            "= 10",
            "= 20",
            "there is no thread `0.3` now",
            "0.2 → 0.1: 0.2 has ended",
            "event 9 of 13: 0.1 deposit, write balance (was 120) at account.c:8 │ balance = before + paid;",
            "in deposit (amount=",
            "balance = before + paid;",
            "0.1 → 0: 0.1 has ended",
            "SIGABRT",
            "balance 110\n",
            "the same outcome as in the trace:",
            "assertion failed in thread 0 at account.c:20, main",
            "in main () at account.c:20",
            "= 110",
            "terminated with signal SIGABRT",
        ],
    );
}

#[test]
fn breakpoints_watchpoints_and_steps_do_not_disturb_the_schedule() {
    let place = account("undisturbed");
    place.explore();
    let events = place.json(100, &["replay", "failing.snarl", "--json"])["stats"]["events"].to_string();
    let output_text = place.gdb(
        "failing.snarl",
        &[
            "set unsnarl-stops none",
            "break deposit",
            "continue",
            "next",
            "next",
            "watch balance",
            "continue",
            "delete",
            "step",
            "next",
            "break 20",
            "continue",
            "unsnarl where",
            "next",
        ],
    );
    let end = format!("next is the end: the trace has {events} events");
    expect_output(
        &output_text,
        &["hit Breakpoint 1, deposit", "Hardware watchpoint 2: balance", "main () at account.c:20", &end],
    );
    expect_output(
        &output_text,
        &["the same outcome as in the trace:", "assertion failed in thread 0 at account.c:20"],
    );
    assert!(!output_text.contains("left the schedule"), "{output_text}");

    // From a stop by the schedule, a step goes to the next line, as if the stop were the program's own.
    let output_text = place.gdb("failing.snarl", &["unsnarl goto 1", "next", "next", "next"]);
    expect_output(
        &output_text,
        &["event 1 of", "pthread_create(&first", "pthread_create(&second", "pthread_join(first"],
    );
}

#[test]
fn gdb_shows_deadlocked_threads_at_their_waits() {
    let place = with("deadlock", "c/abba_deadlock.c");
    place.explore();
    let output_text = place.gdb(
        "failing.snarl",
        &[
            "unsnarl next-switch",
            "unsnarl where",
            // There and back: earlier events are reached again.
            "unsnarl goto 6",
            "unsnarl goto 2",
            "unsnarl goto 99",
            "set unsnarl-stops none",
            "continue",
            "thread apply all bt",
            "unsnarl where",
            "continue",
            "unsnarl where",
        ],
    );
    expect_output(
        &output_text,
        &[
            "0 → 0.2: 0 waits for 0.1 to end",
            "next is event 3 of 7: 0.2 b_then_a, start at abba_deadlock.c:16",
            "event 6 of 7: ",
            "event 2 of 7: 0 main, create 0.2 at abba_deadlock.c:28",
            "the trace has 7 events, 0 to 6",
            "the same outcome as in the trace:\ndeadlock: 2 threads wait for each other",
            "thread 0.1 waits for lock `b` at abba_deadlock.c:9",
            "\"0.2 b_then_a\"",
            "in b_then_a (unused=0x0) at",
            "\"0.1 a_then_b\"",
            "in a_then_b (unused=0x0) at",
            "\"0 main\"",
            "in main () at",
            "next is the end: the trace has 7 events",
            "exited with code",
            "the program is not running: `unsnarl start` starts it",
        ],
    );
    // Frames of the runtime must not be shown.
    let all = &output_text[output_text.find("Thread 3 (").expect("all threads")
        ..output_text.find("exited with").expect("an end")];
    assert!(!all.contains("unsnarl_rt::"), "{all}");
}

#[test]
fn gdb_stops_where_the_crash_happens() {
    let place = with("crash", "c/nulled_pointer_segv.c");
    place.explore();
    let trace = place.json(100, &["replay", "failing.snarl", "--json"]);
    let events = trace["stats"]["events"].as_u64().expect("a number");
    let last = format!("unsnarl goto {}", events - 1);
    let output_text = place.gdb(
        "failing.snarl",
        &["unsnarl next-switch", "unsnarl where", &last, "unsnarl next-switch", "bt 1", "continue"],
    );
    expect_output(
        &output_text,
        &[
            "event 0 of",
            " → ",
            &format!("event {} of {events}: ", events - 1),
            "SIGSEGV: the same outcome as in the trace:\nSIGSEGV, invalid memory access",
            "/* FAIL */",
            "#0 ",
            "terminated with signal SIGSEGV",
        ],
    );
}

#[test]
fn gdb_follows_rust_programs() {
    let place = with("rust", "rust/lock_order_deadlock.rs");
    place.explore();
    let output_text = place.gdb(
        "failing.snarl",
        &["unsnarl next-switch", "set unsnarl-stops none", "continue", "thread apply all bt 12"],
    );
    expect_output(
        &output_text,
        &[
            " → ",
            "the same outcome as in the trace:\ndeadlock",
            "\"0.2 ",
            "lock_order_deadlock::main::",
            "\"0.1 ",
            "\"0 main\"",
        ],
    );
}

#[test]
fn gdb_reports_a_normal_exit() {
    let place = account("well");
    place.unsnarl(0, &["record", "-o", "good.snarl", "--json", "--", "./prog"]);
    let output_text = place.gdb("good.snarl", &["set unsnarl-stops none", "continue"]);
    expect_output(&output_text, &["balance 130\n", "exit status 0: the same outcome as in the trace"]);
}

#[test]
fn missing_gdb_is_reported_with_advice() {
    let place = account("missing");
    place.unsnarl(0, &["record", "-o", "good.snarl", "--json", "--", "./prog"]);
    let mut command = place.command(UNSNARL, &["replay", "good.snarl", "--gdb"]);
    let output = command.env("UNSNARL_GDB", "no-such-gdb").output().expect("unsnarl runs");
    assert_eq!(output.status.code(), Some(96), "{output:?}");
    let output_text = String::from_utf8_lossy(&output.stderr);
    assert!(
        output_text.contains("there is no no-such-gdb: install it (apt-get install gdb)"),
        "{output_text}"
    );
}

#[test]
fn vscode_configuration_works_and_never_overwrites() {
    let place = account("vscode");
    place.explore();
    place.unsnarl(0, &["replay", "failing.snarl", "--vscode"]);
    let file = place.path(".vscode/launch.json");
    let written: Value = serde_json::from_slice(&fs::read(&file).expect("a file")).expect("JSON");

    // VS Code drives gdb by its machine interface.
    let configuration = &written["configurations"][0];
    let program = configuration["program"].as_str().expect("a program");
    let mut gdb = Command::new("gdb")
        .args(["-nx", "-q", "--interpreter=mi", program])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("gdb runs");
    let mut input = gdb.stdin.take().expect("its input");
    for command in configuration["setupCommands"].as_array().expect("commands") {
        let text = command["text"].as_str().expect("a command");
        writeln!(input, "-interpreter-exec console {}", Value::from(text)).expect("gdb reads");
    }
    for line in ["-exec-run", "-thread-info", "-exec-continue", "-gdb-exit"] {
        writeln!(input, "{line}").expect("gdb reads");
    }
    let output_text = String::from_utf8_lossy(&gdb.wait_with_output().expect("gdb ends").stdout).into_owned();
    drop(input);
    expect_output(
        &output_text,
        &[
            "*stopped,reason=\"breakpoint-hit\"",
            "func=\"unsnarl_debug_stop\"",
            "0 \\342\\206\\222 0.",
            "name=\"0 main\"",
            "name=\"0.1 deposit\"",
            "*stopped,",
        ],
    );

    fs::write(&file, "mine").expect("a file");
    let (again, warned) = place.exits(0, &["replay", "failing.snarl", "--vscode"]);
    assert_eq!(serde_json::from_str::<Value>(&again).expect("JSON"), written);
    assert!(warned.contains("exists and was left unchanged"), "{warned}");
    assert_eq!(fs::read(&file).expect("a file"), b"mine");
}
