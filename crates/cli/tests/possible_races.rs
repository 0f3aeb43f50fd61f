//! Races that code which unsnarl did not compile may have prevented are possible ones, and no failures.

mod common;

use common::{Place, UNSNARL};

/// A library with a thread of its own, which hands over by atomic operations that nobody sees.
const POOL: &str = r#"
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
static atomic_int is_done;
static void (*job)(void);
static void *work(void *unused) {
  job();
  is_done = 1;
  return unused;
}
void pool_start(void (*function)(void)) {
  pthread_t thread;
  job = function;
  pthread_create(&thread, 0, work, 0);
  pthread_detach(thread);
}
void pool_then(void (*function)(void)) {
  while (!is_done)
    sched_yield();
  function();
}
"#;

const USER: &str = r#"
#include <assert.h>
void pool_start(void (*function)(void));
void pool_then(void (*function)(void));
static int number;
static void produce(void) { number = 7; }
static void consume(void) { assert(number == 7); }
int main(void) {
  pool_start(produce);
  pool_then(consume);
}
"#;

fn place() -> Place {
    let place = Place::new("possible-races");
    let rpath = format!("-Wl,-rpath,{}", place.0.display());
    for (library, compiler) in [("libplain.so", &["gcc"][..]), ("libours.so", &[UNSNARL, "cc"])] {
        place.compile(library, POOL, compiler, &["-shared", "-fPIC"]);
        let user = library.trim_end_matches(".so").trim_start_matches("lib");
        place.compile(user, USER, &[UNSNARL, "cc"], &[&format!("./{library}"), &rpath]);
    }
    place
}

#[test]
fn race_in_a_callback_is_possible_unless_the_library_is_compiled_too() {
    let place = place();
    let search = ["explore", "--strategy", "random", "--points", "all", "--runs", "200", "--fail-on", "race"];
    let search =
        |more: &[&'static str]| search.iter().copied().chain(more.iter().copied()).collect::<Vec<_>>();
    let found = place.json(0, &search(&["--json", "--", "./plain"]));
    assert_eq!(found["races"].as_array().map(Vec::len), Some(0), "{found}");
    assert_eq!(found["possible_races"].as_array().map(Vec::len), Some(1), "{found}");
    let report = place.unsnarl(0, &search(&["--", "./plain"]));
    assert!(report.contains("1 possible data race: the code was called by a library"), "{report}");
    let found = place.json(0, &search(&["--json", "--", "./ours"]));
    let none =
        found["races"].as_array().into_iter().chain(found["possible_races"].as_array()).flatten().count();
    assert_eq!(none, 0, "{found}");
}
