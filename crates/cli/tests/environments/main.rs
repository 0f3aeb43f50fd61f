//! Restricted environments: each command works as usual, or works and reports in one line what differs, or is refused
//! with the reason and what to do.
//!
//! The table is printed with `--nocapture` and is part of docs/environments.md; `UNSNARL_UPDATE=1` updates it there.
//! `UNSNARL_ENVIRONMENT=NAME` runs one environment and prints the output of the commands.

#[path = "../common/mod.rs"]
mod common;
mod matrix;
mod rows;
mod sandbox;

use common::{Place, UNSNARL};
use libc::{ENOSYS, EPERM, RLIM_INFINITY};
use matrix::{Outcome, cannot_be_made, is_reachable, judge, lay_out, program, run, table};
use rows::{COMMANDS, EXPLORE, Environment, denied, deny, environments, limited, nobody};
use sandbox::{Sandbox, can_mount, is_root};
use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::PermissionsExt,
    path::Path,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

/// A program that loses an update under some schedules.
const PROGRAM: &str = r"
#include <assert.h>
#include <pthread.h>
#ifndef ASSERTS
#undef assert
#define assert(holds) if (!(holds)) return 3
#endif
static int balance = 100;
static void *deposit(void *amount) {
    int before = balance;
    balance = before + *(int *)amount;
    return 0;
}
int main(void) {
    pthread_t first, second;
    int ten = 10, twenty = 20;
    pthread_create(&first, 0, deposit, &ten);
    pthread_create(&second, 0, deposit, &twenty);
    pthread_join(first, 0);
    pthread_join(second, 0);
    assert(balance == 130);
    return 0;
}
";

#[test]
fn commands_work_or_say_what_keeps_them_from_it() {
    let shared = Place::new("matrix");
    for directory in ["home", "read-only", "tmp"] {
        fs::create_dir(shared.path(directory)).expect("a directory");
        // Other users share the cache.
        fs::set_permissions(shared.path(directory), PermissionsExt::from_mode(0o777)).expect("permissions");
    }
    shared.write("lost.c", PROGRAM);
    let prepare = |args: &[&str], status: i32| {
        let mut command = shared.command(UNSNARL, args);
        command.env("HOME", shared.path("home")).env_remove("XDG_CACHE_HOME");
        let output = command.output().expect("unsnarl runs");
        assert_eq!(output.status.code(), Some(status), "{args:?}\n{}", common::printed(&output));
    };
    let reference = [false, true].map(|asserts| {
        let name = program(asserts);
        let flag = if asserts { "-DASSERTS" } else { "-UASSERTS" };
        prepare(&["cc", "-O1", "-g", "-pthread", flag, "lost.c", "-o", name], 0);
        prepare(&["record", "-o", &format!("{name}-good.snarl"), "--", &format!("./{name}")], 0);
        prepare(&["explore", "-o", &format!("{name}-bad.snarl"), "--", &format!("./{name}")], 100);
        let plain = Environment { asserts, ..Environment::new(format!("plain {name}"), Sandbox::default()) };
        let own = lay_out(&plain, &shared);
        COMMANDS.map(|command| (command, run(&plain, command, &shared, &own).expect("unsnarl runs")))
    });
    let reference = reference.map(BTreeMap::from);

    let only = std::env::var("UNSNARL_ENVIRONMENT").ok();
    let may_mount = can_mount();
    let mut all = environments(&shared);
    // `UNSNARL_ENVIRONMENT` selects some of them.
    all.retain(|environment| only.as_ref().is_none_or(|only| environment.name.contains(only.as_str())));
    let next = AtomicUsize::new(0);
    let results: Vec<Mutex<Option<Vec<Outcome>>>> = all.iter().map(|_| Mutex::new(None)).collect();
    let work = || {
        while let Some(environment) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
            if let Some(why) = cannot_be_made(environment, &shared, may_mount) {
                println!("skipped {}: {why}", environment.name);
                continue;
            }
            let own = lay_out(environment, &shared);
            let closed = environment.sandbox.closed.contains(&1);
            let done = COMMANDS.iter().map(|command| {
                let printed = run(environment, command, &shared, &own)?;
                if only.is_some() {
                    println!("== {}: {command}\n{}{}", environment.name, printed.stdout, printed.stderr);
                }
                let plain = &reference[usize::from(environment.asserts)][command];
                Ok(judge(command, &printed, plain, closed))
            });
            let at = all.iter().position(|other| other.name == environment.name).expect("it is one of them");
            match done.collect::<std::io::Result<Vec<Outcome>>>() {
                Ok(done) => *results[at].lock().expect("nobody panicked") = Some(done),
                Err(error) => println!("skipped {}: {error}", environment.name),
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(2, Into::into) {
            scope.spawn(work);
        }
    });

    let results: Vec<Option<Vec<Outcome>>> =
        results.into_iter().map(|result| result.into_inner().expect("nobody panicked")).collect();
    let mut unexpected = String::new();
    for (environment, results) in all.iter().zip(&results) {
        for (command, got) in COMMANDS.iter().zip(results.iter().flatten()) {
            let expected = environment.expected(command);
            if !got.fits(&expected) {
                unexpected +=
                    &format!("{}, {command}: expected {expected:?}, got {got:?}\n", environment.name);
            }
        }
    }
    let table = table(&all, &results, &shared);
    println!("{table}");
    assert!(unexpected.is_empty(), "{unexpected}");
    if std::env::var_os("UNSNARL_UPDATE").is_some() {
        let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/environments.md");
        let text = fs::read_to_string(&document).expect("the document");
        let (head, _) = text.split_once(TABLE).expect("where the table begins");
        fs::write(&document, format!("{head}{TABLE}\n\n{table}")).expect("the document");
    }
}

/// The line before the table in its document.
const TABLE: &str = "<!-- The rest is written by crates/cli/tests/environments/. -->";

/// With few processes a command works, if they are enough, or is refused. How many it needs depends on the machine.
#[test]
fn few_processes_are_enough_or_the_message_names_the_limit() {
    let shared = Place::new("processes");
    fs::create_dir(shared.path("home")).expect("a directory");
    fs::set_permissions(shared.path("home"), PermissionsExt::from_mode(0o777)).expect("permissions");
    if !is_root() || !is_reachable(&shared) {
        println!("skipped: needs root, and a directory that another user can reach");
        return;
    }
    shared.write("lost.c", PROGRAM);
    shared.unsnarl(0, &["cc", "-O1", "-g", "-pthread", "lost.c", "-o", program(false)]);
    let plain = Environment::new("plain", Sandbox::default());
    let expected = run(&plain, EXPLORE, &shared, &lay_out(&plain, &shared)).expect("unsnarl runs");
    for most in 2..=8 {
        let sandbox = Sandbox { user: Some(nobody(1)), ..limited(libc::RLIMIT_NPROC, most, most) };
        let few = Environment::new(format!("ulimit -u {most}"), sandbox);
        let printed = run(&few, EXPLORE, &shared, &lay_out(&few, &shared)).expect("unsnarl runs");
        match judge(EXPLORE, &printed, &expected, false) {
            Outcome::Works => {}
            Outcome::Refused(why) if why.contains("ulimit -u") => {}
            other => panic!("{most}: {other:?}"),
        }
    }
}

/// A program that starts a child, and neither of them ends. The directory names it in `/proc`.
const NEVER_ENDS: &str = "
#include <unistd.h>
int main(void) {
    if (fork() == 0) for (;;) pause();
    for (volatile int forever = 1; forever;) {}
    return 0;
}
";

#[test]
fn no_process_is_left_behind_without_kill() {
    let place = Place::new("no-kill");
    fs::create_dir(place.path("home")).expect("a directory");
    place.cc("never_ends", NEVER_ENDS);
    let program = place.path("never_ends");
    for error in [EPERM, ENOSYS] {
        let mut command = place.command(UNSNARL, &["record", "--timeout", "1", "--", "./never_ends"]);
        denied(deny(error, &[libc::SYS_kill])).apply(&mut command);
        let output = command.output().expect("unsnarl runs");
        assert_eq!(output.status.code(), Some(104), "{}", common::printed(&output));
        let processes = fs::read_dir("/proc").expect("/proc is mounted").flatten();
        let left = processes.filter(|process| {
            let executable = fs::read_link(process.path().join("exe"));
            executable.is_ok_and(|executable| executable == program)
        });
        assert_eq!(left.count(), 0);
    }
}

/// A program that prints its stack limits, races, and uses more stack than is allowed by default.
const STACKS: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
static int *shared;
static void *add(void *unused) { ++*shared; return unused; }
static int deep(int kib) {
    volatile char frame[1024];
    memset((char *)frame, kib, sizeof frame);
    return kib ? deep(kib - 1) + frame[512] - (char)kib : 0;
}
int main(void) {
    struct rlimit limit;
    pthread_attr_t attributes;
    pthread_t first, second;
    size_t size;
    int on_stack = 0;
    getrlimit(RLIMIT_STACK, &limit);
    pthread_getattr_default_np(&attributes);
    pthread_attr_getstacksize(&attributes, &size);
    printf("soft %lx hard %lx thread %zx\n", limit.rlim_cur, limit.rlim_max, size);
    printf("deep %d\n", deep(100 << 10));
    shared = &on_stack;
    pthread_create(&first, 0, add, 0);
    pthread_getattr_np(first, &attributes);
    pthread_attr_getstacksize(&attributes, &size);
    printf("first %zx\n", size);
    pthread_create(&second, 0, add, 0);
    pthread_join(first, 0);
    pthread_join(second, 0);
    return 0;
}
"#;

#[test]
fn a_program_finds_the_unlimited_stack_that_it_has_without_us() {
    let place = Place::new("stack");
    fs::create_dir(place.path("home")).expect("a directory");
    place.cc("stacks", STACKS);
    let unlimited = limited(libc::RLIMIT_STACK, RLIM_INFINITY, RLIM_INFINITY);
    let output = |program: &str, args: &[&str]| {
        let mut command = place.command(program, args);
        unlimited.apply(&mut command);
        match command.output() {
            Ok(output) => Some(output),
            Err(error) => {
                println!("skipped: the hard limit cannot be raised: {error}");
                None
            }
        }
    };
    let Some(native) = output("./stacks", &[]) else { return };
    let (status, errors) = (native.status, String::from_utf8_lossy(&native.stderr).into_owned());
    let native = String::from_utf8_lossy(&native.stdout).into_owned();
    let limits = "soft ffffffffffffffff hard ffffffffffffffff thread 200000\ndeep ";
    assert!(native.contains(limits), "{status}: {native}{errors}");
    let controlled = output("env", &[UNSNARL, "record", "--", "./stacks"]).expect("as before");
    assert_eq!(String::from_utf8_lossy(&controlled.stdout), native, "{}", common::printed(&controlled));
    // The race detector watches the stack and the mappings at their actual addresses.
    let raced =
        output("env", &[UNSNARL, "explore", "--fail-on", "race", "--", "./stacks"]).expect("as before");
    assert_eq!(raced.status.code(), Some(100), "{}", common::printed(&raced));
    assert!(common::printed(&raced).contains("data race"), "{}", common::printed(&raced));
}

/// A program that finds other files if an earlier run, or another one, has changed them.
const COUNTS: &str = r#"
#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
static void *look(void *unused) { access("count", R_OK); return unused; }
int main(void) {
    int count = -1;
    pthread_t threads[2];
    FILE *file = fopen("count", "r+");
    assert(file && fscanf(file, "%d", &count) == 1 && count == 0);
    rewind(file);
    fprintf(file, "1");
    fclose(file);
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], 0, look, 0);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
    return 0;
}
"#;

#[test]
fn all_runs_find_the_same_files_whatever_is_forbidden() {
    let place = Place::new("files");
    place.compile("counts", COUNTS, &["gcc"], &[]);
    fs::create_dir(place.path("home")).expect("a directory");
    place.write("count", "0");
    let for_all = |name: &str, mode| fs::set_permissions(place.path(name), PermissionsExt::from_mode(mode));
    for (name, mode) in [(".", 0o777), ("home", 0o777), ("count", 0o666)] {
        for_all(name, mode).expect("permissions");
    }
    let unprivileged = Sandbox { user: Some(nobody(2)), ..Sandbox::default() };
    let sandboxes = [
        ("no namespaces", denied(deny(EPERM, &[libc::SYS_unshare])), true),
        ("no mounts", denied(deny(EPERM, &[libc::SYS_mount])), true),
        ("no namespaces known", denied(deny(ENOSYS, &[libc::SYS_unshare, libc::SYS_mount])), true),
        // The file belongs to another user.
        ("unprivileged user", unprivileged, true),
    ];
    for (name, sandbox, is_noted) in sandboxes {
        if sandbox.user.is_some() && !is_root() {
            continue;
        }
        for jobs in ["1", "2"] {
            let mut command =
                place.command(UNSNARL, &["explore", "-j", jobs, "--runs", "30", "--", "./counts"]);
            command.env("HOME", place.path("home")).env_remove("XDG_CACHE_HOME");
            sandbox.apply(&mut command);
            // It may belong to another user.
            let _ = fs::remove_dir_all(place.path(".unsnarl"));
            let output = command.output().expect("unsnarl runs");
            let printed = common::printed(&output);
            assert_eq!(output.status.code(), Some(0), "{name}, -j {jobs}: {printed}");
            assert!(!printed.contains("seen once"), "{name}, -j {jobs}: {printed}");
            let notes = usize::from(is_noted && jobs == "2");
            assert_eq!(printed.matches("one run at a time").count(), notes, "{name}, -j {jobs}: {printed}");
            assert_eq!(place.read("count"), "0", "{name}, -j {jobs}: {printed}");
        }
    }
}
