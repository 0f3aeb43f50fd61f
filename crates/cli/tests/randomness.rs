//! Random numbers of the program: they differ between the runs of a search, and are kept in its traces.

mod common;

use common::Place;

fn place(name: &str) -> Place {
    let place = Place::new(name);
    let source = std::fs::read_to_string(common::programs().join("c/random_choice.c")).expect("the program");
    place.compile("prog", &source, &["gcc"], &[]);
    place
}

#[test]
fn failure_that_needs_random_numbers_is_found_and_replays() {
    let place = place("found");
    for seed in ["1", "2", "3"] {
        let found = place.json(100, &["explore", "--json", "--seed", seed, "--", "./prog"]);
        assert_eq!(found["outcome"]["kind"], "deadlock", "{found}");
        let replayed = place.json(100, &["replay", found["trace"].as_str().expect("a path"), "--json"]);
        assert_eq!(replayed["identical"], true, "{replayed}");
    }
}

#[test]
fn pinned_random_numbers_are_the_same_in_all_runs() {
    let place = place("pinned");
    let explored = |entropy: &str| {
        let args = ["explore", "--entropy", entropy, "--runs", "300", "--", "./prog"];
        place.ends(&args).status.code()
    };
    // Most pairs of numbers lead to the same order of locks, some do not.
    let outcomes: Vec<_> = (0..20).map(|entropy| explored(&entropy.to_string())).collect();
    assert!(outcomes.contains(&Some(0)) && outcomes.contains(&Some(100)), "{outcomes:?}");
}

#[test]
fn claim_is_limited_to_one_set_of_random_numbers() {
    let place = Place::new("claim");
    place.cc(
        "prog",
        "#include <pthread.h>\n#include <sys/random.h>\n\
         static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;\n\
         static void *f(void *u) { char c; getrandom(&c, 1, 0); pthread_mutex_lock(&m); pthread_mutex_unlock(&m); return u; }\n\
         int main(void) { pthread_t t[2]; for (int i = 0; i < 2; i++) pthread_create(&t[i], 0, f, 0);\n\
         for (int i = 0; i < 2; i++) pthread_join(t[i], 0); }\n",
    );
    let report = place.unsnarl(0, &["explore", "--strategy", "chess:9", "--", "./prog"]);
    assert!(report.contains("no failure with one set of random numbers: "), "{report}");
    let found = place.json(0, &["explore", "--strategy", "chess:9", "--json", "--", "./prog"]);
    assert_eq!(found["complete"]["all"], false, "{found}");
}

/// Prints random numbers from all sources, drawn before and after a thread was created.
const PRINTS: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/random.h>
static void *draw(void *u) { unsigned n; getrandom(&n, sizeof n, 0); fprintf(stderr, "%u ", n); return u; }
int main(int count, char **args) {
  pthread_t t;
  if (count > 1) { draw(0); fprintf(stderr, "%d ", *(int *)getauxval(AT_RANDOM)); }
  pthread_create(&t, 0, draw, 0);
  pthread_join(t, 0);
  FILE *f = fopen("/dev/urandom", "r");
  int n; if (fread(&n, sizeof n, 1, f) != 1) return 2;
  fprintf(stderr, "%d %d\n", n, *(int *)getauxval(AT_RANDOM));
  exit(args[0] == 0);
}
"#;

#[test]
fn every_run_has_its_own_random_numbers_from_all_sources() {
    let place = Place::new("sources");
    place.cc("prog", PRINTS);
    for args in [&["./prog"][..], &["./prog", "early"]] {
        let recorded = |seed: &str| {
            let path = format!("{}-{seed}.snarl", args.len());
            let (_, printed) =
                place.exits(0, &[&["record", "--seed", seed, "-o", &path, "--"], args].concat());
            let replayed = place.json(0, &["replay", &path, "--json"]);
            assert_eq!(replayed["identical"], true, "{replayed}");
            printed.lines().next().unwrap_or_default().to_owned()
        };
        let (first, again, second) = (recorded("1"), recorded("1"), recorded("2"));
        assert_eq!(first, again);
        for (a, b) in first.split(' ').zip(second.split(' ')) {
            assert_ne!(a, b, "{first} and {second}");
        }
    }
}
