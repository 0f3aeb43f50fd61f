//! Launchers are followed to the program that they start.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

const UNSNARL: &str = env!("CARGO_BIN_EXE_unsnarl");

/// A directory with a program, `lost`, that loses an update by some schedules and prints its argument, a variable of the environment and
/// a line of its standard input.
fn directory(name: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("follow").join(name);
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(directory.join("inner")).expect("a directory");
    fs::write(directory.join("lost.c"), LOST).expect("a source file");
    let mut gcc = Command::new("gcc");
    gcc.args(["-O1", "-g", "-pthread", "-o", "lost", "lost.c"]).current_dir(&directory);
    assert!(gcc.status().expect("gcc runs").success());
    directory
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

fn script(directory: &Path, name: &str, text: &str) {
    let path = directory.join(name);
    fs::write(&path, text).expect("a script");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("a mode");
}

fn unsnarl(directory: &Path, args: &[&str]) -> Output {
    let mut unsnarl = Command::new(UNSNARL);
    unsnarl.args(args).current_dir(directory).stdin(Stdio::null()).output().expect("unsnarl runs")
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

const RUN_TESTS: &str = "#!/bin/sh\necho set up\nexport WHO=somebody\ncd inner\ntrap 'touch cleaned' EXIT\ntrap 'exit 1' TERM\n\
                         echo from a pipe | ../lost argument\necho never reached >&2\n";

#[test]
fn a_script_is_followed_and_its_trace_replays_without_it() {
    let directory = directory("script");
    script(&directory, "run-tests.sh", RUN_TESTS);
    let found = unsnarl(
        &directory,
        &["explore", "--follow", "--runs", "200", "-o", "t.snarl", "--", "./run-tests.sh"],
    );
    let told = text(&found);
    assert_eq!(found.status.code(), Some(100), "{told}");
    assert!(told.contains("follows ../lost argument"), "{told}");
    assert!(told.contains("set up") && !told.contains("never reached"), "{told}");
    assert!(told.contains("unsnarl record --like t.snarl --follow -- ./run-tests.sh"), "{told}");
    assert!(directory.join("inner/cleaned").exists(), "the launcher was not let clean up");

    fs::remove_file(directory.join("run-tests.sh")).expect("the script was there");
    let replayed = unsnarl(&directory, &["replay", "--json", "t.snarl"]);
    let told: serde_json::Value = serde_json::from_slice(&replayed.stdout).expect("JSON");
    assert_eq!(told["identical"], true, "{told}");
    assert_eq!(replayed.status.code(), Some(100), "{told}");
}

#[test]
fn a_followed_program_has_the_surroundings_that_its_launcher_gave_it() {
    let directory = directory("surroundings");
    script(&directory, "run-tests.sh", RUN_TESTS);
    let recorded = unsnarl(&directory, &["record", "--follow=lost", "-o", "t.snarl", "--", "./run-tests.sh"]);
    assert_eq!(recorded.status.code(), Some(0), "{}", text(&recorded));
    assert_eq!(
        String::from_utf8_lossy(&recorded.stdout),
        "argument somebody from a pipe\n",
        "{}",
        text(&recorded)
    );
}

#[test]
fn a_launcher_that_starts_no_such_program_is_told() {
    let directory = directory("nobody");
    script(&directory, "run-tests.sh", "#!/bin/sh\n/usr/bin/env true\n");
    let none = unsnarl(&directory, &["record", "--follow", "--", "./run-tests.sh"]);
    assert_eq!(none.status.code(), Some(96), "{}", text(&none));
    assert!(
        text(&none).contains("had started no program that makes threads; it started sh, env, true"),
        "{}",
        text(&none)
    );
    let named = unsnarl(&directory, &["record", "--follow=lost", "--", "./run-tests.sh"]);
    assert!(text(&named).contains("had started no program named lost"), "{}", text(&named));
    let without = unsnarl(&directory, &["record", "--", "./run-tests.sh"]);
    assert_eq!(without.status.code(), Some(96), "{}", text(&without));
    assert!(text(&without).contains("--follow"), "{}", text(&without));
}
