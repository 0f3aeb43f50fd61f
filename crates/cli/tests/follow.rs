//! `--follow` finds the program that a launcher starts.

mod common;

use common::{Place, printed};
use std::fs;

/// Creates a place with a program, `lost`, that loses an update under some schedules and prints its argument, an
/// environment variable and a line of its standard input.
#[track_caller]
fn built(name: &str) -> Place {
    let place = Place::new(name);
    fs::create_dir(place.path("inner")).expect("a directory");
    place.compile("lost", LOST, &["gcc"], &[]);
    place
}

const LOST: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int balance;
static void *add(void *unused)
{
    pthread_mutex_lock(&mutex);
    int seen = balance;
    pthread_mutex_unlock(&mutex);
    pthread_mutex_lock(&mutex);
    balance = seen + 1;
    pthread_mutex_unlock(&mutex);
    return unused;
}
int main(int count, char **args)
{
    pthread_t threads[2];
    char line[32] = "";
    if (!fgets(line, sizeof line, stdin))
        return 7;
    printf("%s %s %s", count > 1 ? args[1] : "", getenv("WHO"), line);
    fflush(stdout);
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, add, NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    return balance == 2 ? 0 : 3;
}
"#;

const RUN_TESTS: &str = "#!/bin/sh\necho set up\nexport WHO=somebody\ncd inner\ntrap 'touch cleaned' EXIT\ntrap 'exit 1' TERM\n\
                         echo from a pipe | ../lost argument\necho never reached >&2\n";

#[test]
fn followed_script_replays_without_the_script() {
    let place = built("script");
    place.executable("run-tests.sh", RUN_TESTS);
    let found =
        place.ends(&["explore", "--follow", "--runs", "200", "-o", "t.snarl", "--", "./run-tests.sh"]);
    let report = printed(&found);
    assert_eq!(found.status.code(), Some(100), "{report}");
    assert!(report.contains("follows ../lost argument"), "{report}");
    assert!(report.contains("set up") && !report.contains("never reached"), "{report}");
    assert!(report.contains("unsnarl record --like t.snarl --follow -- ./run-tests.sh"), "{report}");
    assert!(place.path("inner/cleaned").exists(), "the launcher was not let clean up");

    fs::remove_file(place.path("run-tests.sh")).expect("the script was there");
    let replayed = place.ends(&["replay", "--json", "t.snarl"]);
    let report: serde_json::Value = serde_json::from_slice(&replayed.stdout).expect("JSON");
    assert_eq!(report["identical"], true, "{report}");
    assert_eq!(replayed.status.code(), Some(100), "{report}");
}

#[test]
fn followed_program_keeps_its_launchers_environment() {
    let place = built("surroundings");
    place.executable("run-tests.sh", RUN_TESTS);
    let recorded = place.ends(&["record", "--follow=lost", "-o", "t.snarl", "--", "./run-tests.sh"]);
    assert_eq!(recorded.status.code(), Some(0), "{}", printed(&recorded));
    assert_eq!(
        String::from_utf8_lossy(&recorded.stdout),
        "argument somebody from a pipe\n",
        "{}",
        printed(&recorded)
    );
}

#[test]
fn launcher_without_matching_program_is_an_error() {
    let place = built("nobody");
    place.executable("run-tests.sh", "#!/bin/sh\n/usr/bin/env true\n");
    let none = place.ends(&["record", "--follow", "--", "./run-tests.sh"]);
    assert_eq!(none.status.code(), Some(96), "{}", printed(&none));
    assert!(
        printed(&none).contains("without starting a program that creates threads; it started sh, env, true"),
        "{}",
        printed(&none)
    );
    let named = place.ends(&["record", "--follow=lost", "--", "./run-tests.sh"]);
    assert!(printed(&named).contains("without starting a program named lost"), "{}", printed(&named));
    let without = place.ends(&["record", "--", "./run-tests.sh"]);
    assert_eq!(without.status.code(), Some(96), "{}", printed(&without));
    assert!(printed(&without).contains("--follow"), "{}", printed(&without));
}
