//! No process and no file stays behind, however unsnarl ends.

mod common;

use common::{Place, UNSNARL};
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};
use unsnarl_exec::{Executor, Settings, SnapshotResult};
use unsnarl_model::{Plan, Policy, Program};

/// Creates a place with a directory for temporary files.
fn empty(name: &str) -> Place {
    let place = Place::new(name);
    fs::create_dir(place.path("tmp")).expect("a directory");
    place
}

/// Compiles a program under this name, so that its processes can be identified.
#[track_caller]
fn compile(place: &Place, name: &str, source: &str) {
    place.compile(name, source, &["gcc"], &[]);
}

fn start(place: &Place, args: &[&str]) -> Child {
    // Tests that run in the background may ignore interrupts, and children inherit that.
    Command::new("env")
        .args(["--default-signal=INT,TERM", UNSNARL])
        .args(args)
        .env("TMPDIR", place.path("tmp"))
        .current_dir(&place.0)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("unsnarl runs")
}

/// Returns the processes that execute this program.
fn processes(place: &Place, name: &str) -> Vec<u32> {
    let executable = place.path(name);
    let numbers = fs::read_dir("/proc").expect("processes").flatten();
    let numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers
        .filter(|number: &u32| {
            fs::read_link(format!("/proc/{number}/exe")).is_ok_and(|program| program == executable)
        })
        .collect()
}

/// Waits until there are processes of this program, or none.
fn wait_for(place: &Place, name: &str, some: bool) {
    let begin = Instant::now();
    while processes(place, name).is_empty() == some {
        assert!(begin.elapsed() < Duration::from_secs(60), "{name} {some}: {:?}", processes(place, name));
        std::thread::yield_now();
    }
}

fn files(place: &Place) -> Vec<PathBuf> {
    let directories = [place.0.clone(), place.path(".unsnarl"), place.path("tmp"), "/dev/shm".into()];
    let entries = directories.iter().filter_map(|directory| fs::read_dir(directory).ok()).flatten();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    // Other programs use shared memory too.
    let ours = |path: &Path| !path.starts_with("/dev/shm") || path.to_string_lossy().contains("unsnarl");
    files.retain(|path| !path.ends_with(".unsnarl") && ours(path));
    files.sort();
    files
}

const ENDLESS: &str = "static volatile int stop;\nint main(void) { while (!stop) {} }";

#[test]
fn killing_unsnarl_kills_its_programs() {
    let place = empty("killed");
    compile(&place, "endless", ENDLESS);
    let before = files(&place);
    for (signal, command) in [
        ("-KILL", &["record", "--", "./endless"][..]),
        ("-KILL", &["explore", "-j", "2", "--", "./endless"]),
        ("-INT", &["record", "--", "./endless"]),
        ("-INT", &["explore", "-j", "2", "--", "./endless"]),
        ("-TERM", &["explore", "--", "./endless"]),
    ] {
        let mut unsnarl = start(&place, command);
        wait_for(&place, "endless", true);
        let sent =
            Command::new("kill").args([signal, &unsnarl.id().to_string()]).status().expect("kill runs");
        assert!(sent.success());
        unsnarl.wait().expect("unsnarl ends");
        wait_for(&place, "endless", false);
        assert_eq!(files(&place), before, "{signal} {command:?}");
    }
}

#[test]
fn processes_left_by_a_run_are_killed_before_the_next() {
    let place = empty("left");
    compile(&place, "endless", ENDLESS);
    compile(&place, "leaver", "#include <stdlib.h>\nint main(void) { return system(\"./endless &\"); }");
    for command in [&["record", "--", "./leaver"][..], &["explore", "--runs", "5", "--", "./leaver"]] {
        let status = start(&place, command).wait().expect("unsnarl ends");
        assert_eq!(status.code(), Some(0), "{command:?}");
        wait_for(&place, "endless", false);
    }
}

/// Kills a process, and waits until it has closed its files.
fn kill(process: u32) {
    let killed = Command::new("kill").args(["-KILL", &process.to_string()]).status();
    assert!(killed.expect("kill runs").success());
    let is_alive = |process: u32| {
        // The state follows the name, which is in parentheses.
        let status = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        status.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
    };
    while is_alive(process) {
        std::thread::yield_now();
    }
}

/// Killing the process of a snapshot costs time, and nothing else.
#[test]
fn search_continues_after_snapshot_is_killed() {
    let place = empty("snapshot");
    compile(
        &place,
        "kept",
        r#"
#include <pthread.h>
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static void *work(void *unused)
{
    for (int i = 0; i < 20; i++) {
        pthread_mutex_lock(&mutex);
        pthread_mutex_unlock(&mutex);
    }
    return unused;
}
int main(void)
{
    pthread_t thread;
    pthread_create(&thread, 0, work, 0);
    work(0);
    pthread_join(thread, 0);
}
"#,
    );
    let text = |path: &Path| path.to_str().expect("UTF-8").to_owned();
    let program = Program {
        path: text(&place.path("kept")),
        args: vec![b"kept".to_vec()],
        cwd: text(&place.0),
        ..Program::default()
    };
    let mut executor =
        Executor::new(program, Settings { serve: true, ..Settings::default() }).expect("it can be used");
    let plan = Plan { tail: Policy::Random, seed: 1, ..Plan::default() };
    let whole = executor.run(&plan).expect("a run").trace();
    let again = whole.replay_plan();
    let waiting = |executor: &mut Executor| {
        let before = processes(&place, "kept");
        let snapshot = executor.take_snapshot(&again, whole.events.len() / 2).expect("no error");
        assert_eq!(snapshot, SnapshotResult::Taken);
        let new: Vec<u32> =
            processes(&place, "kept").into_iter().filter(|process| !before.contains(process)).collect();
        assert_eq!(new.len(), 1, "{new:?}");
        new[0]
    };
    for _ in 0..4 {
        let snapshot = waiting(&mut executor);
        assert!(executor.run(&again).expect("a run").is_resumed());
        kill(snapshot);
        let run = executor.run(&again).expect("a run");
        assert!(!run.is_resumed());
        assert_eq!(run.trace().events, whole.events);
    }
    // A run that would have resumed from there is made from the beginning.
    let snapshot = waiting(&mut executor);
    kill(snapshot);
    // The end of the process is noticed at once or when it does not answer, depending on timing.
    let _ = executor.take_snapshot(&again, whole.events.len() * 3 / 4).expect("no error");
    let snapshot = executor.take_snapshot(&again, whole.events.len() * 3 / 4).expect("no error");
    assert_eq!(snapshot, SnapshotResult::Taken);
    assert!(executor.run(&again).expect("a run").is_resumed());
}
