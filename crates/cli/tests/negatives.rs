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
    assert_eq!(found["complete"]["all"], false, "{found}");
    let (_, progress) = place.exits(0, &["hunt", "--runs", "3", "--", "./plain"]);
    assert!(progress.contains(NOT_COMPILED.trim_end()), "{progress}");
}

/// Returns a program in which two threads execute these statements.
fn two_threads(head: &str, first: &str, second: &str, check: &str) -> String {
    format!(
        "#define _GNU_SOURCE\n#include <assert.h>\n#include <pthread.h>\n{head}\n\
         static void *first(void *u) {{ {first} return u; }}\n\
         static void *second(void *u) {{ {second} return u; }}\n\
         int main(void) {{ pthread_t a, b;\n\
         pthread_create(&a, 0, first, 0);\n  pthread_create(&b, 0, second, 0);\n\
         pthread_join(a, 0);\n  pthread_join(b, 0);\n{check}\n}}\n"
    )
}

/// Returns what a search of all schedules claims.
#[track_caller]
fn claim_of(place: &Place, name: &str) -> String {
    let report = place.unsnarl(0, &["explore", "--strategy", "chess:9", "--", &format!("./{name}")]);
    let claim = report.lines().find(|line| line.contains("all explored"));
    claim.unwrap_or_else(|| panic!("no claim:\n{report}")).to_owned()
}

#[test]
fn part_that_was_compiled_otherwise_limits_the_claim() {
    let place = Place::new("partly");
    place.compile("old.o", "int counter;\nvoid add(void) { counter++; }\n", &["gcc"], &["-c"]);
    let source =
        two_threads("void add(void);\nextern int counter;", "add();", "add();", "assert(counter == 2);");
    place.compile("partly", &source, &[common::UNSNARL, "cc"], &["./old.o"]);
    assert!(claim_of(&place, "partly").contains("no failure outside old.o.c: "));
    let report = place.unsnarl(0, &["explore", "--runs", "5", "--", "./partly"]);
    assert!(report.contains("accesses of old.o.c in ./partly were not examined"), "{report}");
    let found = place.json(0, &["explore", "--strategy", "chess:9", "--json", "--", "./partly"]);
    assert_eq!(found["examined"]["modules"][0]["not_compiled"][0], "old.o.c", "{found}");
    assert_eq!(found["complete"]["all"], false, "{found}");
}

#[test]
fn influences_beside_the_order_of_operations_limit_the_claim() {
    let place = Place::new("influences");
    let split = "char text[] = \"a b\"; assert(*strtok(text, \" \") == 'a');";
    let store_and_load = |store: &str, load: &str, result: &str| {
        format!(
            "atomic_store_explicit(&{store}, 1, memory_order_relaxed);\n\
             {result} = atomic_load_explicit(&{load}, memory_order_relaxed);"
        )
    };
    let lock = "#include <stdlib.h>\nstatic pthread_rwlock_t lock = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;";
    let look = "struct timespec now; clock_gettime(CLOCK_MONOTONIC, &now); assert(now.tv_sec);";
    for (name, source, expected) in [
        (
            "splits",
            two_threads("#include <string.h>", split, split, ""),
            "apart from the data kept by strtok(): ",
        ),
        (
            "stores",
            two_threads(
                "#include <stdatomic.h>\nstatic atomic_int x, y;\nstatic int left, right;",
                &store_and_load("x", "y", "left"),
                &store_and_load("y", "x", "right"),
                "assert(left || right);",
            ),
            "under sequential consistency: ",
        ),
        (
            "prefers",
            two_threads(
                lock,
                "pthread_rwlock_rdlock(&lock); pthread_rwlock_unlock(&lock);",
                "pthread_rwlock_wrlock(&lock); pthread_rwlock_unlock(&lock);",
                "",
            ),
            "apart from when writers begin to wait: ",
        ),
        (
            "looks",
            two_threads("#include <time.h>", look, look, ""),
            "as far as clock readings do not matter: ",
        ),
    ] {
        place.cc(name, &source);
        let claim = claim_of(&place, name);
        assert!(claim.contains(expected), "{name}: {claim}");
    }
    place.cc(
        "forks",
        "#include <sys/wait.h>\n#include <unistd.h>\nint main(void) { if (!fork()) _exit(0); wait(0); }\n",
    );
    let report = place.unsnarl(0, &["explore", "--runs", "5", "--", "./forks"]);
    assert!(report.contains("the same; child processes run without control\n"), "{report}");
}

#[test]
fn search_ends_when_all_schedules_were_run() {
    let place = Place::new("ends");
    place.cc("fixed", &LOSES.replace("counter++", "__atomic_fetch_add(&counter, 1, __ATOMIC_SEQ_CST)"));
    // Without a limit on runs.
    let found = place.json(0, &["explore", "--json", "--time", "1h", "--", "./fixed"]);
    assert_eq!(found["complete"]["all"], true, "{found}");
    let report = place.unsnarl(0, &["explore", "--time", "1h", "--", "./fixed"]);
    assert!(!report.contains("coverage "), "{report}");
}

#[test]
fn incomplete_search_says_how_far_it_got() {
    let place = Place::new("far");
    place.cc("fixed", &LOSES.replace("counter++", "__atomic_fetch_add(&counter, 1, __ATOMIC_SEQ_CST)"));
    let explore = ["explore", "--strategy", "random", "--runs", "2000"];
    let report = place.unsnarl(0, &[&explore[..], &["--", "./fixed"]].concat());
    let expected = "coverage the only conflicting pair of operations was seen in both orders; 1,000 more random schedules \
                    would show a new order with a chance of at most ";
    assert!(report.contains(expected), "{report}");
    let found = place.json(0, &[&explore[..], &["--json", "--", "./fixed"]].concat());
    let coverage = &found["coverage"];
    assert_eq!((&coverage["pairs"], &coverage["both_orders"]), (&1.into(), &1.into()), "{found}");
    assert_eq!(coverage["classes"], 2, "{found}");
    assert!((0.01..0.99).contains(&coverage["chance_of_new_in_1000"].as_f64().expect("a chance")), "{found}");
    // Runs that are chosen by earlier ones are no sample.
    let found =
        place.json(0, &["explore", "--strategy", "novelty", "--runs", "20", "--json", "--", "./fixed"]);
    assert_eq!(found["coverage"]["chance_of_new_in_1000"], serde_json::Value::Null, "{found}");
    // Without looking for conflicts nothing is known about pairs.
    let sync =
        ["explore", "--strategy", "random", "--runs", "20", "--points", "sync", "--json", "--", "./fixed"];
    let found = place.json(0, &sync);
    assert_eq!(found["coverage"]["pairs"], serde_json::Value::Null, "{found}");
}
