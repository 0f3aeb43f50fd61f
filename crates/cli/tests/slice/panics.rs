//! Panics that print a backtrace: the program reads its debug information for it with millions of instructions, and
//! none of them contributes to the failure.

use super::{Place, Value, common::UNSNARL};

/// A panic that ends a thread and so the program; another thread races with the value that it read.
const FAILS: &str = r#"
static mut GIVEN: i32 = 0;
fn main() {
    unsafe { GIVEN = std::env::args().count() as i32 + 1; } // CAUSE
    let reader = std::thread::spawn(|| {
        let seen = unsafe { GIVEN }; // CAUSE
        assert_ne!(seen, 2); // FAILED
    });
    std::thread::sleep(std::time::Duration::from_secs(1));
    unsafe { GIVEN = 3; } // LATE
    reader.join().unwrap();
}
"#;

/// A panic that is caught: what follows it counts.
const CAUGHT: &str = r#"
static mut GIVEN: i32 = 2;
fn main() {
    let caught = std::panic::catch_unwind(|| {
        if unsafe { GIVEN } == 2 { panic!("no"); } // CAUSE
    });
    let status = if caught.is_err() { 3 } else { 4 }; // CAUSE
    std::process::exit(status);
}
"#;

fn line(source: &str, mark: &str) -> Vec<u64> {
    (1..).zip(source.lines()).filter(|(_, line)| line.ends_with(mark)).map(|(number, _)| number).collect()
}

/// Returns the slice of a program that runs with this environment.
fn sliced(place: &Place, backtrace: &str) -> Value {
    let run = |args: &[&str]| {
        let output =
            place.command(UNSNARL, args).env("RUST_BACKTRACE", backtrace).output().expect("unsnarl runs");
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    assert_eq!(run(&["record", "-o", "t.snarl", "--", "./program"]).0, Some(100));
    let (status, report) = run(&["slice", "t.snarl", "--json"]);
    assert_eq!(status, Some(0), "{report}");
    serde_json::from_str(&report).expect("JSON")
}

#[test]
fn backtrace_code_is_not_traced() {
    let both = ["opt-level=0", "opt-level=2"];
    // Optimised code leaves only the result of what is caught.
    for (name, source, levels) in [("panics", FAILS, &both[..]), ("caught", CAUGHT, &both[..1])] {
        for level in levels {
            let place = Place::new(&format!("{name}-{level}"));
            place.write("case.rs", source);
            place.runs(0, "rustc", &["-g", "--edition", "2021", "-C", level, "-o", "program", "case.rs"]);
            let (with, without) = (sliced(&place, "1"), sliced(&place, "0"));
            for same in ["lines", "race_edges", "criterion", "executed_lines", "unknown", "instructions"] {
                assert_eq!(with[same], without[same], "{name} {level}: {same}");
            }
            let lines = with["lines"].as_array().expect("lines");
            let found: Vec<u64> = lines.iter().filter_map(|line| line["line"].as_u64()).collect();
            for cause in line(source, "CAUSE") {
                assert!(found.contains(&cause), "{name} {level}: {cause} is not in {found:?}");
            }
            for failed in line(source, "FAILED") {
                assert_eq!(with["criterion"]["line"], failed, "{name} {level}");
            }
            // Other threads are still traced after the panic.
            for late in line(source, "LATE") {
                assert!(found.contains(&late), "{name} {level}: {late} is not in {found:?}");
            }
        }
    }
}

/// Without a backtrace, for which the program reads its own mappings, including the runtime's.
#[test]
fn translated_code_and_single_steps_pause_at_same_sites() {
    for (name, source) in [("panics", FAILS), ("caught", CAUGHT)] {
        let place = Place::new(&format!("{name}-stepped"));
        place.write("case.rs", source);
        place.runs(0, "rustc", &["-g", "--edition", "2021", "-o", "program", "case.rs"]);
        sliced(&place, "0");
        let dump = |how: &[&str]| place.unsnarl(0, &[&["slice", "t.snarl", "--dump"], how].concat());
        let (translated, stepped) = (dump(&[]), dump(&["--step"]));
        assert_eq!(translated.lines().zip(stepped.lines()).position(|(a, b)| a != b), None, "{name}");
        assert_eq!(translated.len(), stepped.len(), "{name}");
    }
}
