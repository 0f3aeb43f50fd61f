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
