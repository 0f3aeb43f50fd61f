//! Test suites: binaries of Rust's own harness and of GoogleTest under `explore`, and `unsnarl cargo test`, which
//! explores each test of a project.

use serde_json::Value;
use std::{
    fs,
    io::{BufRead, BufReader, Read},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

const UNSNARL: &str = env!("CARGO_BIN_EXE_unsnarl");

const MANIFEST: &str = "[package]\nname = \"visits\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[workspace]\n";

/// One test is correct, one loses an update under some schedules, one can deadlock.
const THREE_TESTS: &str = "
use std::sync::atomic::{AtomicI32, Ordering::SeqCst};
use std::sync::{Barrier, Mutex};
static START: Barrier = Barrier::new(2);
fn two(one: impl Fn() + Sync, other: impl Fn() + Sync) {
    std::thread::scope(|scope| {
        scope.spawn(|| { START.wait(); one() });
        scope.spawn(|| { START.wait(); other() });
    });
}
#[test]
fn counts() {
    let visits = AtomicI32::new(0);
    two(|| { visits.fetch_add(1, SeqCst); }, || { visits.fetch_add(1, SeqCst); });
    assert_eq!(visits.into_inner(), 2);
}
#[test]
fn loses() {
    let visits = AtomicI32::new(0);
    let visit = || { let before = visits.load(SeqCst); visits.store(before + 1, SeqCst); };
    two(visit, visit);
    assert_eq!(visits.into_inner(), 2, \"a visit was lost\"); // FAIL
}
#[test]
fn locks() {
    let (left, right) = (Mutex::new(1), Mutex::new(2));
    two(
        || { let first = left.lock().unwrap(); drop((right.lock().unwrap(), first)); },
        || { let first = right.lock().unwrap(); drop((left.lock().unwrap(), first)); },
    );
}
";

/// A directory for one test.
struct Place(PathBuf);

impl Place {
    fn new(name: &str, files: &[(&str, &str)]) -> Self {
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("suite-{name}"));
        let _ = fs::remove_dir_all(&directory);
        for (file, content) in files {
            let path = directory.join(file);
            fs::create_dir_all(path.parent().expect("it is in a directory")).expect("a directory");
            fs::write(path, content).expect("a file");
        }
        Self(directory)
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(UNSNARL);
        command.args(args).current_dir(&self.0).stdin(Stdio::null());
        for inherited in ["RUSTFLAGS", "CARGO_TARGET_DIR", "CARGO_BUILD_TARGET_DIR", "CARGO_INCREMENTAL"] {
            command.env_remove(inherited);
        }
        command
    }

    /// Runs unsnarl, checks its exit status, and returns its output.
    #[track_caller]
    fn exits(&self, status: i32, args: &[&str]) -> (String, String) {
        let Output { status: ended, stdout, stderr } = self.command(args).output().expect("unsnarl runs");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (stdout, stderr) = (text(&stdout), text(&stderr));
        assert_eq!(ended.code(), Some(status), "unsnarl {args:?}\n{stdout}\n{stderr}");
        (stdout, stderr)
    }

    #[track_caller]
    fn json(&self, status: i32, args: &[&str]) -> Value {
        let (stdout, stderr) = self.exits(status, args);
        serde_json::from_str(&stdout).unwrap_or_else(|e| panic!("unsnarl {args:?}: {e}\n{stdout}\n{stderr}"))
    }

    /// Returns the test binary that cargo has built.
    fn binary(&self) -> String {
        let built = self.0.join("target/unsnarl/x86_64-unknown-linux-gnu/debug/deps");
        let files =
            fs::read_dir(built).expect("cargo has built").map(|entry| entry.expect("an entry").path());
        let mut binaries = files.filter(|path| path.extension().is_none());
        binaries.next().expect("a binary").to_str().expect("its path is text").to_owned()
    }
}

/// Returns the number of the line with this comment.
fn line_of(source: &str, remark: &str) -> usize {
    1 + source.lines().position(|line| line.ends_with(remark)).expect("the remark")
}

#[test]
fn libtest_binary_is_explored_test_by_test() {
    let place = Place::new("libtest", &[("Cargo.toml", MANIFEST), ("src/lib.rs", THREE_TESTS)]);
    place.exits(0, &["cargo", "test", "--no-run", "--quiet", "--offline"]);
    let binary = place.binary();
    let explore = |status, test: &str| {
        place.json(
            status,
            &["explore", "--runs", "300", "--json", "--", &binary, "--test-threads=1", "--exact", test],
        )
    };
    assert_eq!(explore(0, "counts")["runs"], 300);

    let lost = explore(100, "loses");
    assert_eq!(lost["outcome"]["kind"], "panic");
    assert_eq!(lost["outcome"]["site"], format!("src/lib.rs:{}", line_of(THREE_TESTS, "// FAIL")));
    assert!(lost["outcome"]["message"].as_str().expect("a message").contains("a visit was lost"), "{lost}");
    assert_eq!(place.json(100, &["replay", "--json"])["identical"], true);

    let locked = explore(100, "locks");
    assert_eq!(locked["outcome"]["kind"], "deadlock");
    assert_eq!(place.json(100, &["replay", "--json"])["identical"], true);
    let (shown, _) = place.exits(0, &["show"]);
    assert!(shown.contains("lib.rs"), "{shown}");
}

#[test]
fn cargo_test_explores_each_test_and_reports_failures() {
    let place = Place::new("cargo", &[("Cargo.toml", MANIFEST), ("src/lib.rs", THREE_TESTS)]);
    let (report, _) = place.exits(100, &["cargo", "--runs", "300", "test", "--offline"]);
    for expected in [
        "exploring 3 tests of visits (unittests src/lib.rs)\n",
        "test counts ... ok (300 schedules, ",
        "test loses ... FAILED (run ",
        "test locks ... FAILED (run ",
        "---- loses ----\npanic in thread 0.1 (loses) at src/lib.rs:",
        "---- locks ----\ndeadlock: 2 threads wait for each other\n",
        "replay   unsnarl replay .unsnarl/loses-1.snarl   (checked: identical)\n",
        "again    unsnarl cargo --runs 300 test --offline -- --exact locks\n",
        "result: FAILED. 1 passed; 2 failed; 0 ignored; ",
        "examined synchronisation operations, atomics and accesses that conflict, outside Rust's standard library\n",
        "doc-tests are not explored",
    ] {
        assert!(report.contains(expected), "`{expected}` is missing:\n{report}");
    }
    place.exits(100, &["replay", ".unsnarl/loses-1.snarl"]);
    let (_, stderr) = place.exits(100, &["replay"]);
    assert!(stderr.contains("deadlock"), "the latest is the first failure: {stderr}");

    let one_test = ["cargo", "--runs", "300", "--json", "test", "--offline", "--", "--exact", "loses"];
    let report = place.json(100, &one_test);
    assert_eq!((&report["failed"], &report["passed"]), (&1.into(), &0.into()));
    let test = &report["tests"][0];
    assert_eq!((&test["name"], &test["result"]), (&"loses".into(), &"failed".into()));
    assert_eq!(test["outcome"]["kind"], "panic");
    assert_eq!(test["runs"], place.json(100, &one_test)["tests"][0]["runs"], "searches are repeatable");
    let report = place.json(0, &["cargo", "--runs", "20", "--json", "test", "--offline", "counts"]);
    assert_eq!(
        (&report["found"], &report["passed"], &report["runs"]),
        (&false.into(), &1.into(), &20.into())
    );
}

#[test]
fn test_attributes_harnesses_and_cargo_environment_are_respected() {
    let library = "
/// ```
/// panic!(\"a doc-test that is not run\");
/// ```
pub fn documented() {}
#[cfg(test)]
mod tests {
    #[test] #[should_panic(expected = \"boom\")] fn panics() { panic!(\"boom\") }
    #[test] #[ignore] fn slow() { std::process::exit(7) }
    #[test] fn surrounded() {
        assert!(std::path::Path::new(\"src/lib.rs\").exists());
        assert_eq!(std::env::var(\"CARGO_PKG_NAME\").unwrap(), \"visits\");
    }
}
";
    let manifest = format!("{MANIFEST}[[test]]\nname = \"whole\"\nharness = false\n");
    let files = [
        ("Cargo.toml", manifest.as_str()),
        ("src/lib.rs", library),
        ("tests/whole.rs", "fn main() { println!(\"no list\"); }"),
        ("elsewhere/empty", ""),
    ];
    let place = Place::new("attributes", &files);
    let from_elsewhere = place.0.join("elsewhere");
    let output = place.command(&["cargo", "test", "--offline"]).current_dir(from_elsewhere).output();
    let output = output.expect("unsnarl runs");
    let report = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{report}\n{}", String::from_utf8_lossy(&output.stderr));
    for expected in [
        "test tests::panics ... ok (10 schedules, one thread)\n",
        "test tests::slow ... ignored\n",
        "test tests::surrounded ... ok",
        "exploring one program of whole (tests/whole.rs)\ntest whole ... ok",
        "result: ok. 3 passed; 0 failed; 1 ignored; ",
        "doc-tests are not explored: `cargo test --doc` runs them\n",
    ] {
        assert!(report.contains(expected), "`{expected}` is missing:\n{report}");
    }
    let (report, _) =
        place.exits(100, &["cargo", "--runs", "300", "test", "--offline", "--lib", "--", "--ignored"]);
    assert!(
        report.contains("test tests::slow ... FAILED (run 1 of ") && report.contains("with status 7"),
        "{report}"
    );
    assert!(report.contains("result: FAILED. 0 passed; 1 failed; 0 ignored; "), "{report}");
    assert!(!report.contains("doc-tests"), "with --lib there are none: {report}");
}

#[test]
fn test_failing_without_panic_reports_its_error() {
    let library = "
#[test] fn returns() -> Result<(), String> { Err(\"no visitor\".into()) }
#[test] #[should_panic] fn calm() {}
";
    let place = Place::new("errors", &[("Cargo.toml", MANIFEST), ("src/lib.rs", library)]);
    let report = place.json(100, &["cargo", "--runs", "300", "--json", "test", "--offline"]);
    let message = |nth: usize| report["tests"][nth]["outcome"]["message"].as_str().expect("a message");
    assert!(message(0).contains("test did not panic as expected"), "{report}");
    assert_eq!(message(1), "Error: \"no visitor\"");
}

#[test]
fn only_tests_that_build_are_explored() {
    let files = [("Cargo.toml", MANIFEST), ("src/main.rs", "fn main() { println!(\"hello\"); }")];
    let place = Place::new("cargo_run", &files);
    let (stdout, _) = place.exits(0, &["cargo", "run", "--quiet", "--offline"]);
    assert_eq!(stdout, "hello\n");
    let (stdout, _) = place.exits(0, &["cargo", "test", "--offline", "--", "--list"]);
    assert!(stdout.contains("0 tests, 0 benchmarks"), "{stdout}");
    let (stdout, _) = place.exits(0, &["cargo", "test", "--offline"]);
    assert!(stdout.contains("exploring 0 tests") && stdout.contains("result: ok. 0 passed"), "{stdout}");
    let (_, stderr) = place.exits(2, &["cargo", "--runs", "5", "run"]);
    assert!(stderr.contains("work only with `unsnarl cargo … test`"), "{stderr}");
    let (_, stderr) = place.exits(2, &["cargo", "test", "--doc"]);
    assert!(stderr.contains("`cargo test --doc` runs them"), "{stderr}");
    let (help, _) = place.exits(0, &["cargo", "--help"]);
    assert!(help.contains("--runs") && help.contains("unsnarl cargo [OPTIONS]"), "{help}");
    fs::write(place.0.join("src/main.rs"), "no program").expect("a file");
    place.exits(101, &["cargo", "test", "--quiet", "--offline"]);
}

#[test]
fn interrupted_suite_reports_results_so_far() {
    let library = THREE_TESTS.replace("fn counts", "fn zealous");
    let place = Place::new("interrupted", &[("Cargo.toml", MANIFEST), ("src/lib.rs", &library)]);
    let mut child = place
        .command(&["cargo", "--runs", "1000000000", "test", "--offline"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("unsnarl runs");
    let mut report = BufReader::new(child.stdout.take().expect("it is piped"));
    let mut text = String::new();
    while !text.contains("test loses ... FAILED") {
        assert!(report.read_line(&mut text).expect("text") > 0, "it ended early: {text}");
    }
    let kill = Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill runs");
    assert!(kill.success());
    report.read_to_string(&mut text).expect("text");
    assert_eq!(child.wait().expect("unsnarl ends").code(), Some(100));
    // The last test may have begun or not.
    for expected in ["---- loses ----", "result: FAILED, interrupted. 0 passed; 2 failed; 0 ignored; "] {
        assert!(text.contains(expected), "`{expected}` is missing:\n{text}");
    }
}

#[test]
fn google_test_binary_is_explored_by_filter() {
    let source = "
#include <atomic>
#include <gtest/gtest.h>
#include <mutex>
#include <thread>
template <class One, class Other> void both(One one, Other other) {
  std::thread first(one), second(other);
  first.join();
  second.join();
}
TEST(Visits, Counted) {
  std::atomic<int> visits{0};
  both([&] { visits++; }, [&] { visits++; });
  EXPECT_EQ(visits, 2);
}
TEST(Visits, Lost) {
  int visits = 0;
  auto visit = [&] { int before = visits; visits = before + 1; };
  both(visit, visit);
  EXPECT_EQ(visits, 2) << \"a visit was lost\"; // FAIL
}
TEST(Visits, Locked) {
  std::mutex left, right;
  both([&] { std::lock_guard one(left); std::lock_guard two(right); },
       [&] { std::lock_guard one(right); std::lock_guard two(left); });
}
";
    let place = Place::new("gtest", &[("visits.cpp", source)]);
    place.exits(
        0,
        &[
            "c++",
            "-std=c++17",
            "-O1",
            "-g",
            "-o",
            "visits",
            "visits.cpp",
            "-lgtest",
            "-lgtest_main",
            "-pthread",
        ],
    );
    let explore = |status, test: &str| {
        let filter = format!("--gtest_filter=Visits.{test}");
        place.json(status, &["explore", "--runs", "500", "--json", "--", "./visits", &filter])
    };
    assert_eq!(explore(0, "Counted")["runs"], 500);

    let lost = explore(100, "Lost");
    assert_eq!((&lost["outcome"]["kind"], &lost["outcome"]["status"]), (&"exit".into(), &1.into()));
    let message = lost["outcome"]["message"].as_str().expect("a message");
    let place_of_failure = format!("visits.cpp:{}: Failure\n", line_of(source, "// FAIL"));
    assert!(message.starts_with(&place_of_failure) && message.ends_with("a visit was lost"), "{message}");
    assert_eq!(place.json(100, &["replay", "--json"])["identical"], true);

    assert_eq!(explore(100, "Locked")["outcome"]["kind"], "deadlock");
    assert_eq!(place.json(100, &["replay", "--json"])["identical"], true);
}
