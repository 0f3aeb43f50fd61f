//! `unsnarl predict` from the outside.

mod common;

use common::Place;
use serde_json::Value;

/// Creates a place with the trace `good.snarl` of a successful run of a program.
#[track_caller]
fn with_run(name: &str, source: &str) -> Place {
    let place = Place::new(name);
    place.write("prog.c", source);
    place.exits(0, &["cc", "-O1", "-g", "-Wall", "-Werror", "-pthread", "-o", "prog", "prog.c"]);
    place.exits(0, &["record", "-o", "good.snarl", "--", "./prog"]);
    place
}

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value[name].as_array().map_or(&[], Vec::as_slice)
}

/// Returns the lines of each race of a list, sorted.
fn lines(races: &[Value]) -> Vec<[u64; 2]> {
    let line = |side: &Value| side["line"].as_u64().expect("a line");
    let mut all: Vec<[u64; 2]> = races.iter().map(|race| [line(&race["a"]), line(&race["b"])]).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// The paper's listing 1: the order of the critical sections decides whether the race on `y` can be observed.
const LISTING: &str = r#"#include <pthread.h>
static int x, y;
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static void *task(void *unused) {
    pthread_mutex_lock(&m);
    x++;
    pthread_mutex_unlock(&m);
    y++; /* line 8 */
    return unused;
}
int main(void) {
    pthread_t thread;
    y++;
    pthread_create(&thread, 0, task, 0);
    y++; /* line 15 */
    pthread_mutex_lock(&m);
    x++;
    pthread_mutex_unlock(&m);
    pthread_join(thread, 0);
    return 0;
}
"#;

#[test]
fn predicted_race_is_confirmed_and_replays() {
    let place = with_run("listing", LISTING);
    place.exits(0, &["predict", "good.snarl"]);
    place.exits(2, &["predict", "good.snarl", "--window", "0"]);
    let report = place.json(100, &["predict", "good.snarl", "--confirm", "--json"]);
    assert_eq!(lines(list(&report, "races")), [[15, 8]]);
    assert!(list(&report, "races").iter().all(|race| race["confirmed"] == true && race["object"] == "y"));
    assert!(list(&report, "deadlocks").is_empty());
    let trace = report["races"][0]["trace"].as_str().expect("a trace");
    let replayed = place.json(100, &["replay", trace, "--json"]);
    assert_eq!(replayed["outcome"]["kind"], "race");
    assert_eq!(replayed["identical"], true);
    place.exits(0, &["simplify", trace, "-o", "simple.snarl"]);
}

#[test]
fn predicted_deadlock_is_confirmed() {
    let source = r#"#include <pthread.h>
static pthread_mutex_t a = PTHREAD_MUTEX_INITIALIZER, b = PTHREAD_MUTEX_INITIALIZER;
static void *first(void *unused) {
    pthread_mutex_lock(&a);
    pthread_mutex_lock(&b);
    pthread_mutex_unlock(&b);
    pthread_mutex_unlock(&a);
    return unused;
}
static void *second(void *unused) {
    pthread_mutex_lock(&b);
    pthread_mutex_lock(&a);
    pthread_mutex_unlock(&a);
    pthread_mutex_unlock(&b);
    return unused;
}
int main(void) {
    pthread_t threads[2];
    pthread_create(&threads[0], 0, first, 0);
    pthread_create(&threads[1], 0, second, 0);
    pthread_join(threads[0], 0);
    pthread_join(threads[1], 0);
    return 0;
}
"#;
    let place = with_run("abba", source);
    let report = place.json(100, &["predict", "good.snarl", "--confirm", "--json"]);
    let [deadlock] = list(&report, "deadlocks") else { panic!("one deadlock: {report:#}") };
    let [one, other] = list(deadlock, "cycle") else { panic!("of two threads: {report:#}") };
    assert_eq!((&one["holds"][0], &one["waits_for"], &one["line"]), (&"a".into(), &"b".into(), &5.into()));
    assert_eq!(
        (&other["holds"][0], &other["waits_for"], &other["line"]),
        (&"b".into(), &"a".into(), &12.into())
    );
    let trace = deadlock["trace"].as_str().expect("a trace");
    assert_eq!(place.json(100, &["replay", trace, "--json"])["outcome"]["kind"], "deadlock");
}

#[test]
fn heap_objects_have_the_names_that_show_gives_them() {
    let source = r#"#include <pthread.h>
#include <stdlib.h>
struct account { pthread_mutex_t a, b; int balance; };
static void *first(void *arg) {
    struct account *account = arg;
    pthread_mutex_lock(&account->a);
    pthread_mutex_lock(&account->b);
    pthread_mutex_unlock(&account->b);
    pthread_mutex_unlock(&account->a);
    account->balance++;
    return arg;
}
static void *second(void *arg) {
    struct account *account = arg;
    pthread_mutex_lock(&account->b);
    pthread_mutex_lock(&account->a);
    pthread_mutex_unlock(&account->a);
    pthread_mutex_unlock(&account->b);
    account->balance++;
    return arg;
}
int main(void) {
    pthread_t threads[2];
    struct account *account = calloc(1, sizeof *account);
    pthread_mutex_init(&account->a, 0);
    pthread_mutex_init(&account->b, 0);
    pthread_create(&threads[0], 0, first, account);
    pthread_create(&threads[1], 0, second, account);
    pthread_join(threads[0], 0);
    pthread_join(threads[1], 0);
    return 0;
}
"#;
    let place = with_run("heap", source);
    let report = place.json(0, &["predict", "good.snarl", "--json"]);
    let [deadlock] = list(&report, "deadlocks") else { panic!("one deadlock: {report:#}") };
    let held: Vec<&Value> = list(deadlock, "cycle").iter().map(|waits| &waits["holds"][0]).collect();
    assert_eq!(held, ["account->a", "account->b"]);
    let [race, ..] = list(&report, "races") else { panic!("a race: {report:#}") };
    let object = race["object"].as_str().expect("a name");
    assert_eq!(object, "account->balance");
    let shown = place.unsnarl(0, &["show", "good.snarl", "--all"]);
    for name in ["lock account->a", "lock account->b", object] {
        assert!(shown.contains(name), "{name}: {shown}");
    }
}

#[test]
fn unconfirmed_predictions_are_listed_separately() {
    // Whether the second thread writes depends on the value that it reads under the lock
    let source = r#"#include <pthread.h>
static int ready, data;
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static void *produce(void *unused) {
    data = 1;
    pthread_mutex_lock(&m);
    ready = 1;
    pthread_mutex_unlock(&m);
    return unused;
}
static void *consume(void *unused) {
    pthread_mutex_lock(&m);
    int is_ready = ready;
    pthread_mutex_unlock(&m);
    if (is_ready) data = 2;
    return unused;
}
int main(void) {
    pthread_t threads[2];
    pthread_create(&threads[0], 0, produce, 0);
    pthread_create(&threads[1], 0, consume, 0);
    pthread_join(threads[0], 0);
    pthread_join(threads[1], 0);
    return data != 2;
}
"#;
    let place = with_run("handed-over", source);
    let report = place.json(0, &["predict", "good.snarl", "--confirm", "--json"]);
    assert!(list(&report, "races").is_empty());
    let apart = list(&report["unconfirmed"], "races");
    assert_eq!(lines(apart), [[5, 15]]);
    assert_eq!(apart[0]["verdict"], "diverged");
    let (text, _) = place.exits(0, &["predict", "good.snarl", "--confirm"]);
    assert!(text.contains("diverges at event"), "{text}");
}

#[test]
fn correct_program_has_no_predictions() {
    let source = r#"#include <pthread.h>
static int hits;
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static void *visit(void *unused) {
    pthread_mutex_lock(&m);
    hits++;
    pthread_mutex_unlock(&m);
    return unused;
}
int main(void) {
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], 0, visit, 0);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
    return hits - 2;
}
"#;
    let place = with_run("guarded", source);
    let report = place.json(0, &["predict", "good.snarl", "--confirm", "--json"]);
    assert!(list(&report, "races").is_empty() && list(&report, "deadlocks").is_empty());
    assert_eq!(report["figures"]["candidates"], 0);
    assert_eq!(report["executions"], 1, "the recorded run, once more");
}

const HIDDEN: &str = "T1|fork(T2)|1
T1|w(BUGGY_ADDR)|2
T1|acq(m)|3
T1|rel(m)|4
T2|acq(m)|5
T2|rel(m)|6
T2|w(BUGGY_ADDR)|7
";

#[test]
fn std_trace_is_predicted_as_text_and_as_trace() {
    let place = Place::new("std");
    place.write("hidden.std", HIDDEN);
    place.exits(0, &["import", "hidden.std", "-o", "hidden.snarl"]);
    for file in ["hidden.std", "hidden.snarl"] {
        let report = place.json(0, &["predict", file, "--json"]);
        assert_eq!(lines(list(&report, "races")), [[2, 7]], "{file}");
        assert_eq!(report["races"][0]["object"], "BUGGY_ADDR", "{file}");
        assert_eq!(report["races"][0]["confirmed"], false);
    }
    let (_, notes) = place.exits(0, &["predict", "hidden.snarl", "--confirm"]);
    assert!(notes.contains("no program to run"), "{notes}");
}

#[test]
fn inconsistent_text_is_rejected_with_its_line() {
    let place = Place::new("contradictions");
    for (text, line, reason) in [
        ("T1|w(x)|1\n\nT1|rel(m)|2\n", "line 3: T1 releases", "lock m, which it does not hold"),
        ("T1|join(T9)|1\n", "line 1: T1 joins", "T9, which was never created"),
        ("T1|w(x)|1\nT1|wait(m)|2\n", "line 2: T1 waits", "without holding its mutex m"),
        ("T1|acq(m)|1\nT2|acq(m)|2\n", "line 2: T2 acquires", "which T1 holds"),
        ("T1|fork(T2)|1\nT1|join(T2)|2\nT2|w(x)|3\n", "line 3: T2 runs", "after it was joined"),
        ("T1|w(x)|1\nT1|join(T1)|2\n", "odd.std: line 2: T1 joins", "itself"),
        ("T2|w(x)|1\nT1|fork(T2)|2\n", "line 2: T1 creates T2", "which already exists"),
        ("T1|fork(T2)|1\nT2|w(x)|2\nT1|fork(T2)|3\n", "line 3: T1 creates T2", "which already exists"),
        ("T1|w(x)|1\nT1|w(x)\n", "odd.std: line 2", "is not of the form"),
        ("", "odd.std: has no events", "lines like T1|w(x)|42"),
    ] {
        place.write("odd.std", text);
        let (_, output_text) = place.exits(96, &["predict", "odd.std"]);
        assert!(output_text.contains(line) && output_text.contains(reason), "{text}: {output_text}");
    }
}

#[test]
fn trace_with_lock_misuse_is_rejected_with_its_site() {
    let place = with_run(
        "misuse",
        "#include <pthread.h>
        static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
        static void *other(void *unused) { pthread_mutex_unlock(&mutex); return unused; }
        int main(void) {
            pthread_t thread;
            pthread_mutex_lock(&mutex);
            pthread_create(&thread, 0, other, 0);
            pthread_join(thread, 0);
        }",
    );
    let (_, output_text) = place.exits(96, &["predict", "good.snarl", "--confirm"]);
    let reason = "thread 0.1 releases lock mutex, which it does not hold, at ";
    assert!(
        output_text.contains(reason)
            && output_text.contains("prog.c:3")
            && output_text.contains("good.snarl: event"),
        "{output_text}"
    );
}

#[test]
fn model_is_exported_for_a_refinement_checker() {
    let place = Place::new("csp");
    place.write("hidden.std", HIDDEN);
    place.exits(0, &["predict", "hidden.std", "--export-csp", "model.csp"]);
    let model = place.read("model.csp");
    assert!(
        model.contains("THREAD0 = fork.t0.t1 -> write.t0.o0 -> lock.t0.m0 -> unlock.t0.m0 -> SKIP"),
        "{model}"
    );
    assert!(model.contains("assert STOP [T= (PROGRAM"), "{model}");
}
