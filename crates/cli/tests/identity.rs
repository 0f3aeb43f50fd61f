//! Which failures count as the same bug.

mod common;

use common::Place;
use serde_json::Value;

/// A shop with two bugs, which both end with status 1: the last item can be sold twice, and takings can be lost. The
/// numbers in the messages depend on the schedule.
const SHOP: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

struct shop {
  pthread_mutex_t door;
  int stock, sold, takings;
};

static int customers_served(struct shop *shop) { return shop->sold; }

static void pay(struct shop *shop, int amount) {
  int till = shop->takings;
  shop->takings = till + amount;
}

static void *buy(void *argument) {
  struct shop *shop = argument;
  pthread_mutex_lock(&shop->door);
  int there = shop->stock > 0;
  pthread_mutex_unlock(&shop->door);
  if (!there) return 0;
  pthread_mutex_lock(&shop->door);
  shop->stock--;
  shop->sold++;
  pthread_mutex_unlock(&shop->door);
  pay(shop, 5);
  return 0;
}

int main(void) {
  struct shop *shop = calloc(1, sizeof *shop);
  pthread_mutex_init(&shop->door, 0);
  shop->stock = 2;
  pthread_t customers[3];
  for (int i = 0; i < 3; i++) pthread_create(&customers[i], 0, buy, shop);
  for (int i = 0; i < 3; i++) pthread_join(customers[i], 0);
  if (shop->stock < 0) {
    fprintf(stderr, "oversold: %d left after %d customers\n", shop->stock, customers_served(shop));
    exit(1);
  }
  if (shop->takings != 5 * shop->sold) {
    fprintf(stderr, "takings are %d instead of %d\n", shop->takings, 5 * shop->sold);
    exit(1);
  }
  return 0;
}
"#;

/// Returns the distinct failures of a search that goes on after the first.
fn failures(place: &Place, program: &str, options: &[&str]) -> Vec<Value> {
    let search = ["explore", "--json", "--keep-going", "--runs", "300"];
    let report = place.json(100, &[&search, options, &["--", program]].concat());
    report["failures"].as_array().expect("failures").clone()
}

#[test]
fn bugs_with_the_same_exit_status_are_different_failures() {
    let place = Place::new("shop");
    place.cc("shop", SHOP);
    let found = failures(&place, "./shop", &[]);
    assert_eq!(found.len(), 2, "{found:?}");
    for failure in &found {
        let trace = failure["trace"].as_str().expect("a path");
        let replayed = place.json(100, &["replay", "--json", trace]);
        assert_eq!(replayed["reproduced"], true, "{replayed}");
    }
}

/// Four races on four counters.
const COUNTERS: &str = r#"
#include <pthread.h>
#include <stdlib.h>

struct counters { long requests, bytes, errors, retries; };

static void record(struct counters *counters, int bytes) {
  counters->requests++;
  counters->bytes += bytes;
  if (bytes > 100) counters->errors++;
  if (bytes > 200) counters->retries++;
}

static void *serve(void *argument) {
  for (int i = 0; i < 2; i++) record(argument, 300);
  return 0;
}

int main(void) {
  struct counters *counters = calloc(1, sizeof *counters);
  pthread_t threads[2];
  for (int i = 0; i < 2; i++) pthread_create(&threads[i], 0, serve, counters);
  for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
  free(counters);
  return 0;
}
"#;

#[test]
fn every_confirmed_race_replays_as_the_race_that_it_was_saved_for() {
    let place = Place::new("counters");
    place.cc("counters", COUNTERS);
    place.unsnarl(0, &["record", "-o", "good.snarl", "--", "./counters"]);
    let report = place.json(100, &["predict", "--json", "--confirm", "good.snarl"]);
    let races = report["races"].as_array().expect("races");
    assert!(races.len() >= 4, "{races:?}");
    for race in races.iter().filter(|race| race["confirmed"] == true) {
        let trace = race["trace"].as_str().expect("a path");
        let replayed = place.json(100, &["replay", "--json", trace]);
        assert_eq!(replayed["reproduced"], true, "{race}: {replayed}");
    }
    for failure in failures(&place, "./counters", &["--fail-on", "race"]) {
        let trace = failure["trace"].as_str().expect("a path");
        let replayed = place.json(100, &["replay", "--json", trace]);
        assert_eq!(replayed["reproduced"], true, "{failure}: {replayed}");
        let simple = place.json(0, &["simplify", "--json", trace]);
        assert_eq!(simple["outcome_preserved"], true, "{failure}: {simple}");
    }
}

/// Returns the identities of the failures of a search, sorted.
fn identities(place: &Place, program: &str, options: &[&str]) -> Vec<String> {
    let found = failures(place, program, options);
    let mut all: Vec<String> = found
        .iter()
        .map(|failure| failure["outcome"]["identity"].as_str().expect("a name").to_owned())
        .collect();
    all.sort();
    all
}

#[test]
fn failures_have_the_same_identity_in_other_builds() {
    let place = Place::new("builds");
    for folder in ["here", "elsewhere"] {
        std::fs::create_dir(place.path(folder)).expect("a directory");
    }
    let build = |folder: &str, name: &str, source: &str, flags: &[&str]| -> String {
        let (file, program) = (format!("{folder}/{name}.c"), format!("./{folder}/{name}"));
        place.write(&file, source);
        place.unsnarl(0, &[&["cc", "-g", "-pthread", "-o", &program, &file], flags].concat());
        program
    };
    let unrelated = format!("static int spare[9];\nint more_of(int n) {{ return spare[n] + n; }}\n\n{SHOP}");
    let programs = [
        build("here", "shop", SHOP, &["-O1"]),
        build("elsewhere", "shop", SHOP, &["-O1"]),
        build("here", "larger", &unrelated, &["-O1"]),
        build("here", "unoptimised", SHOP, &["-O0"]),
        build("here", "optimised", SHOP, &["-O2"]),
    ];
    for options in [&[][..], &["--fail-on", "race"]] {
        let expected = identities(&place, &programs[0], options);
        assert!(expected.len() >= 2, "{options:?}: {expected:?}");
        for program in &programs[1..] {
            assert_eq!(identities(&place, program, options), expected, "{program} {options:?}");
        }
    }
}

/// Two deadlocks in one function, by two pairs of locks, and a crash in one function with two callers.
const ONE_FUNCTION: &str = r#"
#include <pthread.h>
#include <stddef.h>
#include <string.h>

struct item { struct item *next; int value; };

static pthread_mutex_t stock = PTHREAD_MUTEX_INITIALIZER, orders = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t users = PTHREAD_MUTEX_INITIALIZER, sessions = PTHREAD_MUTEX_INITIALIZER;
static struct item item, *volatile first = &item, *volatile last = &item;

static void both(pthread_mutex_t *one, pthread_mutex_t *other) {
  pthread_mutex_lock(one);
  pthread_mutex_lock(other);
  pthread_mutex_unlock(other);
  pthread_mutex_unlock(one);
}

static __attribute__((noinline)) int value_of(struct item *item) { return item->value; }

static int first_value(void) { return value_of(first) + 1; }

static int last_value(void) { return value_of(last) - 1; }

static void *remove_all(void *unused) {
  first = NULL;
  first = &item;
  last = NULL;
  last = &item;
  return unused;
}

static void *lock_all(void *unused) {
  both(&stock, &orders);
  both(&users, &sessions);
  return unused;
}

int main(int count, char **arguments) {
  pthread_t thread;
  if (count > 1 && strcmp(arguments[1], "lock") == 0) {
    pthread_create(&thread, 0, lock_all, 0);
    both(&orders, &stock);
    both(&sessions, &users);
  } else {
    pthread_create(&thread, 0, remove_all, 0);
    if (first_value() + last_value() != 0) return 2;
  }
  return pthread_join(thread, 0);
}
"#;

#[test]
fn different_bugs_in_one_function_are_different_failures() {
    let place = Place::new("function");
    place.cc("shared", ONE_FUNCTION);
    for (argument, kind) in [("lock", "deadlock"), ("read", "signal")] {
        let search = ["explore", "--json", "--keep-going", "--runs", "300", "--", "./shared", argument];
        let report = place.json(100, &search);
        let found = report["failures"].as_array().expect("failures");
        assert_eq!(found.len(), 2, "{argument}: {report}");
        assert!(found.iter().all(|failure| failure["outcome"]["kind"] == kind), "{report}");
    }
}

#[test]
fn predicate_narrows_what_is_the_same_failure() {
    let place = Place::new("same_if");
    place.cc("shop", SHOP);
    let takings = failures(&place, "./shop", &["--same-if", "^takings are"]);
    assert_eq!(takings.len(), 1, "{takings:?}");
    let none = place.json(0, &["explore", "--json", "--runs", "50", "--same-if", "^never", "--", "./shop"]);
    assert_eq!((&none["found"], &none["complete"]["all"]), (&false.into(), &false.into()), "{none}");
    assert!(none["excluded"].as_u64() > Some(0), "{none}");
    let (text, _) = place.exits(0, &["explore", "--runs", "50", "--same-if", "^never", "--", "./shop"]);
    assert!(text.contains("(--same-if excludes") && !text.contains("all explored"), "{text}");

    let trace = takings[0]["trace"].as_str().expect("a path");
    let simplified = place.json(0, &["simplify", "--json", "--same-if", "^takings are", trace]);
    assert_eq!(simplified["outcome_preserved"], true, "{simplified}");
    let (_, refusal) = place.exits(2, &["simplify", "--same-if", "^oversold", trace]);
    assert!(refusal.contains("--same-if does not match the failure of this trace"), "{refusal}");
}
