//! `unsnarl hunt` from the outside.

mod common;

use common::{Place, programs};
use std::fs;

/// Creates a directory with a program's source.
fn place(name: &str, program: &str) -> Place {
    let place = Place::new(name);
    fs::copy(programs().join("c").join(program), place.path("prog.c")).expect("a program");
    place
}

const BUILD: [&str; 2] = ["--build", "$CC -O1 -g -pthread prog.c -o prog"];

#[test]
fn hunt_builds_finds_simplifies_and_explains() {
    let place = place("account", "account.c");
    let page = place.unsnarl(100, &[&["hunt"], &BUILD[..], &["--", "./prog"]].concat());
    for expected in [
        "3 threads, 4 context switches (1 preemption)",
        "0.1 preempts 0.2",
        "why      lost update: `balance`",
        "thread 0.2 read `balance` = 100 (prog.c:19)",
        "meanwhile thread 0.1 wrote `balance` = 150 (prog.c:12)",
        "then thread 0.2 wrote `balance` = 70 over it (prog.c:21)",
        "if thread 0.2 is not preempted in between, the program ends normally",
        "assertion failed in thread 0 at prog.c:33",
        "prog.c:19 (thread 0.2) read `balance`, then prog.c:12 (thread 0.1) wrote it: nothing orders them",
        "(checked: fails the same way)",
    ] {
        assert!(page.contains(expected), "no `{expected}` in\n{page}");
    }
    let report = place.json(100, &["hunt", "--json", "--", "./prog"]);
    assert_eq!((&report["found"], &report["stats"]["preemptive"]), (&true.into(), &1.into()), "{report}");
    assert_eq!(report["cause"]["pattern"], "lost update", "{report}");
    let lost = &report["cause"]["facts"][2];
    assert_eq!(
        (&lost["thread"], &lost["line"], &lost["object"]),
        (&"0.1".into(), &12.into(), &"balance".into())
    );
    assert!(report["cause"]["prevented_by"].is_string() && report["slice"]["lines"].is_array(), "{report}");
    assert!(place.path(report["trace"].as_str().expect("a path")).exists());
    assert!(place.path(report["original"].as_str().expect("a path")).exists());
}

#[test]
fn hunt_reports_clean_programs_and_failed_builds() {
    let place = place("fixed", "account_fixed.c");
    let report = place.unsnarl(0, &[&["hunt"], &BUILD[..], &["--runs", "100", "--", "./prog"]].concat());
    assert!(report.starts_with("no failure in"), "{report}");
    let (_, output_text) = place.exits(1, &["hunt", "--build", "exit 3", "--", "./prog"]);
    assert!(output_text.contains("the build failed"), "{output_text}");
}
