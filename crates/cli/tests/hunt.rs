//! `unsnarl hunt` from the outside.

use serde_json::Value;
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

/// A directory of a test's own, with a program's source in it.
fn place(name: &str, program: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("hunt-{name}"));
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).expect("a directory");
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../programs/c");
    fs::copy(programs.join(program), directory.join("prog.c")).expect("a program");
    directory
}

fn hunt(directory: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_unsnarl"));
    command.arg("hunt").args(args).current_dir(directory).stdin(Stdio::null());
    command.output().expect("unsnarl runs")
}

const BUILD: [&str; 2] = ["--build", "$CC -O1 -g -pthread prog.c -o prog"];

#[test]
fn one_command_builds_finds_simplifies_and_shows_why() {
    let directory = place("account", "account.c");
    let hunted = hunt(&directory, &[&BUILD[..], &["--", "./prog"]].concat());
    let page = String::from_utf8_lossy(&hunted.stdout);
    assert_eq!(hunted.status.code(), Some(100), "{hunted:?}");
    for expected in [
        "3 threads, 4 context switches, 1 preemptive",
        "0.1 preempts 0.2",
        "why      thread 0.2 was stopped here, before locking `mutex`",
        "meanwhile thread 0.1 wrote `balance` (prog.c:12)",
        "without this stop, the program ended normally",
        "assertion failed in thread 0 at prog.c:33",
        "prog.c:19 (thread 0.2) read `balance`, then prog.c:12 (thread 0.1) wrote it: nothing orders them",
        "(tried: the same failure)",
    ] {
        assert!(page.contains(expected), "no `{expected}` in\n{page}");
    }
    let hunted = hunt(&directory, &["--json", "--", "./prog"]);
    let told: Value = serde_json::from_slice(&hunted.stdout).expect("JSON");
    assert_eq!((&told["found"], &told["stats"]["preemptive"]), (&true.into(), &1.into()), "{told}");
    assert!(directory.join(told["trace"].as_str().expect("a path")).exists());
    assert!(directory.join(told["original"].as_str().expect("a path")).exists());
}

#[test]
fn a_correct_program_is_said_to_be_clean_and_a_build_that_fails_is_told() {
    let directory = place("fixed", "account_fixed.c");
    let hunted = hunt(&directory, &[&BUILD[..], &["--runs", "100", "--", "./prog"]].concat());
    assert_eq!(hunted.status.code(), Some(0), "{hunted:?}");
    assert!(String::from_utf8_lossy(&hunted.stdout).starts_with("no failure in"), "{hunted:?}");
    let hunted = hunt(&directory, &["--build", "exit 3", "--", "./prog"]);
    assert_eq!(hunted.status.code(), Some(1), "{hunted:?}");
    assert!(String::from_utf8_lossy(&hunted.stderr).contains("the build failed"), "{hunted:?}");
}
