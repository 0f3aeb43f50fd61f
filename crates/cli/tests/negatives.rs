//! Answers without a failure: they say what was examined, and claim no more.

mod common;

use common::Place;

/// Loses updates if accesses are schedule points.
const LOSES: &str = "#include <assert.h>\n#include <pthread.h>\nstatic int counter;\n\
    static void *add(void *u) { counter++; return u; }\n\
    int main(void) { pthread_t t[2];\n\
    for (int i = 0; i < 2; i++) pthread_create(&t[i], 0, add, 0);\n\
    for (int i = 0; i < 2; i++) pthread_join(t[i], 0);\n  assert(counter == 2); }\n";

const NOT_COMPILED: &str =
    "accesses of ./plain were not examined: it was not compiled by unsnarl (rebuild: CC=\"unsnarl cc\")\n";

#[test]
fn plain_program_is_not_claimed_to_be_explored() {
    let place = Place::new("plain");
    place.compile("plain", LOSES, &["gcc"], &[]);
    for strategy in ["portfolio", "chess:9"] {
        let report =
            place.unsnarl(0, &["explore", "--runs", "1000", "--strategy", strategy, "--", "./plain"]);
        assert!(report.contains(NOT_COMPILED), "{report}");
        assert!(!report.contains("in any schedule"), "{report}");
    }
    let report = place.unsnarl(0, &["explore", "--strategy", "chess:9", "--", "./plain"]);
    assert!(report.contains("no failure at synchronisation operations: "), "{report}");
    let found = place.json(0, &["explore", "--strategy", "chess:9", "--json", "--", "./plain"]);
    assert_eq!(found["complete"]["all"], false, "{found}");
    assert_eq!(found["complete"]["because"], "only at synchronisation operations", "{found}");
    assert!(found["complete"]["schedules"].as_u64() > Some(1), "{found}");
    assert_eq!(found["examined"]["points"], "races", "{found}");
    let module = &found["examined"]["modules"][0];
    assert_eq!(
        (module["accesses"].as_str(), module["path"].as_str().map(|p| p.ends_with("/plain"))),
        (Some("none"), Some(true))
    );
}

#[test]
fn instrumented_program_is_claimed_to_be_explored() {
    let place = Place::new("instrumented");
    place.cc("fixed", &LOSES.replace("counter++", "__atomic_fetch_add(&counter, 1, __ATOMIC_SEQ_CST)"));
    let report = place.unsnarl(0, &["explore", "--runs", "1000", "--", "./fixed"]);
    assert!(report.contains("no failure in any schedule: "), "{report}");
    let found = place.json(0, &["explore", "--runs", "1000", "--json", "--", "./fixed"]);
    assert_eq!(
        (&found["complete"]["all"], &found["complete"]["because"]),
        (&true.into(), &serde_json::Value::Null),
        "{found}"
    );
    assert_eq!(found["examined"]["modules"][0]["accesses"], "compiled", "{found}");
    let report = place.unsnarl(0, &["explore", "--runs", "1000", "--points", "sync", "--", "./fixed"]);
    assert!(report.contains("no failure at synchronisation operations and atomics: "), "{report}");
    let report = place.unsnarl(0, &["explore", "--strategy", "random", "--runs", "5", "--", "./fixed"]);
    assert!(
        report.contains("examined synchronisation operations, atomics and accesses that conflict\n"),
        "{report}"
    );
    assert!(!report.contains("all explored"), "{report}");
}

#[test]
fn uninstrumented_library_is_named() {
    let place = Place::new("library");
    place.compile("libpart.so", "int part(void) { return 0; }\n", &["gcc"], &["-shared", "-fPIC"]);
    let source = LOSES.replace("counter++", "part()").replace("counter == 2", "1");
    let source = source.replace("static int counter;", "int part(void);");
    let here = place.0.display().to_string();
    let rpath = format!("-Wl,-rpath,{here}");
    place.compile("uses", &source, &[common::UNSNARL, "cc"], &["./libpart.so", &rpath]);
    let report = place.unsnarl(0, &["explore", "--runs", "100", "--", "./uses"]);
    assert!(report.contains("libpart.so were not examined"), "{report}");
    assert!(!report.contains("in any schedule"), "{report}");
}

#[test]
fn one_thread_needs_one_run() {
    let place = Place::new("one-thread");
    place.cc("one", "int main(void) { return 0; }\n");
    let report = place.unsnarl(0, &["explore", "--", "./one"]);
    assert!(report.starts_with("no failure in 1 run "), "{report}");
    assert!(report.contains("the program has one thread, so all its schedules are the same\n"), "{report}");
    let report = place.unsnarl(0, &["hunt", "--", "./one"]);
    assert!(report.contains("the program has one thread"), "{report}");
}

#[test]
fn prediction_and_hunt_say_that_accesses_were_not_seen() {
    let place = Place::new("predict");
    place.compile("plain", LOSES, &["gcc"], &[]);
    place.exits(0, &["record", "-o", "good.snarl", "--", "./plain"]);
    let report = place.unsnarl(0, &["predict", "good.snarl"]);
    assert!(report.contains(NOT_COMPILED), "{report}");
    let found = place.json(0, &["predict", "good.snarl", "--json"]);
    assert_eq!(found["examined"]["modules"][0]["accesses"], "none", "{found}");
    let (_, progress) = place.exits(0, &["hunt", "--runs", "3", "--", "./plain"]);
    assert!(progress.contains(NOT_COMPILED.trim_end()), "{progress}");
}
