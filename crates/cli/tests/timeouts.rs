//! Time-outs are tried, but do not starve other threads: correct programs that poll end under every strategy, and bugs
//! by a time-out that comes too early are found.

mod common;

use common::{Place, programs};

const STRATEGIES: [&str; 7] = ["random", "pct:3", "pos", "race", "novelty", "chess:1", "portfolio"];

/// Compiles a program of `programs/c` here.
fn build(place: &Place, name: &str) -> String {
    let source = programs().join(format!("c/{name}.c"));
    let source = source.to_str().expect("a path in UTF-8");
    place.runs(0, "gcc", &["-O1", "-g", "-pthread", "-o", name, source]);
    format!("./{name}")
}

#[test]
fn programs_that_poll_end_under_every_strategy() {
    let place = Place::new("correct");
    let correct = [
        "polls_with_timeout",
        "answer_within_minute",
        "join_within_hours",
        "interval_timer_worker",
        "interpreter_lock",
    ];
    for program in correct.map(|name| build(&place, name)) {
        for strategy in STRATEGIES {
            let options = ["--strategy", strategy, "--runs", "100", "--max-events", "100000", "--json"];
            let found = place.json(0, &[&["explore"], &options[..], &["--", &program]].concat());
            assert_eq!(found["found"], false, "{program} by {strategy}: {found}");
        }
        let found =
            place.json(0, &["explore", "--timeouts", "late", "--runs", "100", "--json", "--", &program]);
        assert_eq!(found["found"], false, "{program}, late: {found}");
    }
}

#[test]
fn early_short_timeouts_are_found() {
    let place = Place::new("short");
    for name in ["late_answer", "lease_runs_out", "paid_twice", "timer_between_check_and_act"] {
        let program = build(&place, name);
        place.json(100, &["explore", "--json", "--", &program]);
        assert_eq!(place.json(100, &["replay", "--json"])["identical"], true, "{program}");
        let found =
            place.json(0, &["explore", "--timeouts", "late", "--runs", "200", "--json", "--", &program]);
        assert_eq!(found["found"], false, "{program}, late: {found}");
    }
}

#[test]
fn early_long_timeout_needs_option() {
    let place = Place::new("long");
    let program = build(&place, "timeout_ignored");
    let (report, _) = place.exits(0, &["explore", "--runs", "200", "--", &program]);
    let mention = "time-outs of a second and more were not tried early (--timeouts eager does that)";
    assert_eq!(report.matches(mention).count(), 1, "{report}");
    place.json(100, &["explore", "--timeouts", "eager", "--json", "--", &program]);
    assert_eq!(place.json(100, &["replay", "--json"])["identical"], true);
    place.exits(100, &["record", "--like", "latest", "--", &program]);
}

#[test]
fn systematic_search_says_that_early_timeouts_are_bounded() {
    let place = Place::new("claim");
    let program = build(&place, "timeout_ignored");
    let chess = ["explore", "--strategy", "chess:1", "--"];
    let (report, _) = place.exits(0, &[&chess[..], &[program.as_str()]].concat());
    assert!(report.contains(" bounded early time-outs: "), "{report}");
    let found = place.json(0, &["explore", "--strategy", "chess:9", "--json", "--", &program]);
    assert_eq!(found["complete"]["all"], false, "{found}");
}

#[test]
fn time_passes_no_faster_than_the_program_runs() {
    let place = Place::new("clock");
    // The time that a program of some thousand operations sees, while one of its threads polls.
    place.compile(
        "clock",
        r#"
#include <assert.h>
#include <pthread.h>
#include <time.h>
#include <unistd.h>
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static int done;
static void *work(void *a) {
  for (int i = 0; i < 1000; i++) { pthread_mutex_lock(&m); done++; pthread_mutex_unlock(&m); }
  return a;
}
static int is_done(void) {
  pthread_mutex_lock(&m);
  int all = done == 1000;
  pthread_mutex_unlock(&m);
  return all;
}
int main(void) {
  pthread_t t;
  struct timespec begin, end;
  clock_gettime(CLOCK_MONOTONIC, &begin);
  pthread_create(&t, 0, work, 0);
  while (!is_done()) usleep(50000);
  pthread_join(t, 0);
  clock_gettime(CLOCK_MONOTONIC, &end);
  assert(end.tv_sec - begin.tv_sec < 5);
}
"#,
        &["gcc"],
        &[],
    );
    for strategy in STRATEGIES {
        place.exits(0, &["explore", "--strategy", strategy, "--runs", "60", "--", "./clock"]);
    }
}
