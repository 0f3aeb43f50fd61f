//! Nothing that was found is lost, whatever kills the search, the simplification or the program.

mod common;

use common::{Place, UNSNARL, printed};
use std::{
    collections::BTreeSet,
    fs,
    io::{BufRead, BufReader, Read},
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

/// Ends with another status for each order in which the threads come to the counter: many distinct failures.
const MANY_FAILURES: &str = r#"
#include <pthread.h>
#include <stdlib.h>
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int places[4], next;
static void *arrive(void *number)
{
    pthread_mutex_lock(&mutex);
    places[(long)number] = next++;
    pthread_mutex_unlock(&mutex);
    return 0;
}
int main(void)
{
    pthread_t threads[4];
    for (long i = 0; i < 4; i++) pthread_create(&threads[i], 0, arrive, (void *)i);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
    exit(places[0] * 16 + places[1] * 4 + places[2]);
}
"#;

fn compile(place: &Place, name: &str, source: &str) {
    place.compile(name, source, &["gcc"], &[]);
}

/// Returns the path in a line that says where a trace was saved.
fn saved_path(line: &str) -> Option<String> {
    Some(line.trim_end().split_once("; saved as ")?.1.to_owned())
}

#[track_caller]
fn assert_replays(place: &Place, path: &str) {
    let replayed = place.json(100, &["replay", "--json", path]);
    assert_eq!(replayed["reproduced"], true, "{path}: {replayed}");
}

/// Starts unsnarl with its output piped, in a process group of its own.
fn start(place: &Place, args: &[&str]) -> Child {
    let mut command = place.command(UNSNARL, args);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("unsnarl runs")
}

#[test]
fn failures_that_were_reported_are_on_disk_when_the_search_is_killed() {
    for reported in [1, 2, 5, 9] {
        let place = Place::new(&format!("killed-{reported}"));
        compile(&place, "many", MANY_FAILURES);
        let mut search = start(&place, &["explore", "--keep-going", "--runs", "1000000", "--", "./many"]);
        let mut lines = BufReader::new(search.stderr.take().expect("a pipe")).lines();
        let mut paths = BTreeSet::new();
        while paths.len() < reported {
            let line = lines.next().expect("more failures").expect("a line");
            paths.extend(saved_path(&line));
        }
        search.kill().expect("a signal");
        search.wait().expect("an end");
        paths.extend(lines.map_while(Result::ok).filter_map(|line| saved_path(&line)));
        for path in &paths {
            assert_replays(&place, path);
        }
        assert!(place.path(".unsnarl/latest.snarl").exists(), "latest dangles");
    }
}

/// Fails always, and looks in each later run whether the trace of the first is on disk.
const LOOKS: &str = r#"
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static void *nothing(void *unused) { return unused; }
int main(void)
{
    pthread_t thread;
    pthread_create(&thread, 0, nothing, 0);
    pthread_join(thread, 0);
    int saved = 0;
    DIR *traces = opendir(".unsnarl");
    for (struct dirent *entry; traces && (entry = readdir(traces));)
        saved += entry->d_name[0] != '.' && strstr(entry->d_name, ".snarl") != 0;
    int first = open("ran", O_CREAT | O_EXCL | O_WRONLY, 0600) >= 0;
    if (!first && !saved) close(open("lost", O_CREAT | O_WRONLY, 0600));
    abort();
}
"#;

#[test]
fn failure_is_on_disk_before_the_next_run_starts() {
    for options in [&["explore", "-j", "1", "--keep-going"][..], &["explore", "-o", "bug.snarl"], &["hunt"]] {
        let place = Place::new(&format!("before-next-{}", options.len() + options[0].len()));
        compile(&place, "looks", LOOKS);
        place.exits(100, &[options, &["--share-files", "--runs", "20", "--", "./looks"]].concat());
        assert!(place.path("ran").exists() && !place.path("lost").exists(), "{options:?}");
    }
}

/// Returns the processes that execute a program of this place.
fn processes(place: &Place, name: &str) -> Vec<i32> {
    let executable = place.path(name);
    let numbers = fs::read_dir("/proc").expect("processes").flatten();
    let numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let executes = |number: &i32| {
        fs::read_link(format!("/proc/{number}/exe")).is_ok_and(|program| program == executable)
    };
    numbers.filter(executes).collect()
}

fn kill(process: i32) {
    // It may have ended meanwhile.
    let _ = Command::new("kill").args(["-KILL", &process.to_string()]).stderr(Stdio::null()).status();
}

/// Each process of the program is killed from outside in turn: those that make runs, and those that wait for the next.
#[test]
fn search_goes_on_when_the_program_is_killed() {
    let place = Place::new("target");
    compile(&place, "many", MANY_FAILURES);
    let search = ["explore", "--keep-going", "-j", "2", "--time", "5s", "--json", "--", "./many"];
    let mut child = start(&place, &search);
    let mut stdout = child.stdout.take().expect("a pipe");
    let printed = std::thread::spawn(move || {
        let mut text = String::new();
        stdout.read_to_string(&mut text).map(|_| text)
    });
    let mut killed = 0;
    while child.try_wait().expect("a state").is_none() {
        let all = processes(&place, "many");
        // A search that gets nothing done between two kills ends with an error, as it should.
        if killed < 6 && !all.is_empty() && place.path(".unsnarl/many-1.snarl").exists() {
            kill(all[killed % all.len()]);
            killed += 1;
            let before = entries(&place);
            let begin = Instant::now();
            while entries(&place) == before && begin.elapsed() < Duration::from_millis(300) {
                std::thread::yield_now();
            }
        }
        std::thread::yield_now();
    }
    let status = child.wait().expect("an end");
    let text = printed.join().expect("a reader").expect("text");
    assert_eq!(status.code(), Some(100), "{text}");
    let report: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert!(killed > 0 && report["error"].is_null(), "{report}");
    let failures = report["failures"].as_array().expect("failures");
    for failure in failures {
        assert_replays(&place, failure["trace"].as_str().expect("a path"));
    }
}

fn entries(place: &Place) -> BTreeSet<PathBuf> {
    let entries = fs::read_dir(place.path(".unsnarl")).expect("a directory").flatten();
    entries.map(|entry| entry.path()).collect()
}

#[test]
fn simplification_leaves_its_best_so_far_when_it_is_killed() {
    let place = Place::new("simplify");
    place.program("c/bounded_buffer.c");
    let found = ["explore", "-o", "bug.snarl", "--strategy", "random", "--", "./bounded_buffer"];
    place.exits(100, &found);
    for signal in ["-KILL", "-TERM", "-INT"] {
        let _ = fs::remove_file(place.path("simple.snarl"));
        // It would take minutes.
        let simplify = ["simplify", "bug.snarl", "--prove", "--executions", "1000000", "-o", "simple.snarl"];
        let mut child = Command::new("env")
            .args(["--default-signal=INT,TERM", UNSNARL])
            .args(simplify)
            .current_dir(&place.0)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("unsnarl runs");
        // It is there after the first improvement.
        while !place.path("simple.snarl").exists() && child.try_wait().expect("a state").is_none() {
            std::thread::yield_now();
        }
        Command::new("kill").args([signal, &child.id().to_string()]).status().expect("kill runs");
        child.wait().expect("an end");
        assert_replays(&place, "simple.snarl");
    }
}

/// Replaces the directory of traces by a file, and fails.
const REMOVES: &str = r#"
#include <assert.h>
#include <stdlib.h>
int main(void)
{
    assert(system("rm -rf .unsnarl && touch .unsnarl") == 0);
    abort();
}
"#;

#[test]
fn failure_that_cannot_be_saved_is_printed_with_the_command_that_finds_it_again() {
    let place = Place::new("unsaved");
    compile(&place, "removes", REMOVES);
    for command in ["explore", "hunt"] {
        let _ = fs::remove_file(place.path(".unsnarl"));
        let search = [command, "--share-files", "--strategy", "random", "--runs", "5", "--", "./removes"];
        let output = place.ends(&search);
        let text = printed(&output);
        assert_eq!(output.status.code(), Some(105), "{command}: {text}");
        assert!(text.contains("abort") && text.contains("NOT SAVED: "), "{command}: {text}");
        assert!(text.contains("found    by ") && text.contains("seed "), "{command}: {text}");
        let rerun = format!("{}\n", search.join(" "));
        assert!(text.contains("rerun    ") && text.contains(&rerun), "{command}: {text}");
    }
    let _ = fs::remove_file(place.path(".unsnarl"));
    let (_, text) = place.exits(105, &["record", "--seed", "3", "--", "./removes"]);
    assert!(text.contains("found    by random, seed 3") && text.contains("rerun    "), "{text}");
    assert!(text.contains("the trace of this failure is not saved: "), "{text}");
    let _ = fs::remove_file(place.path(".unsnarl"));
    let report = place.json(105, &["explore", "--json", "--share-files", "--runs", "5", "--", "./removes"]);
    assert_eq!((&report["found"], &report["trace"]), (&true.into(), &serde_json::Value::Null), "{report}");
    assert!(report["failures"][0]["not_saved"].is_string(), "{report}");
}

#[test]
fn trace_that_does_not_fit_where_it_should_go_stays_where_it_is() {
    let place = Place::new("full");
    compile(&place, "many", MANY_FAILURES);
    let (report, errors) = place.exits(100, &["explore", "-o", "/dev/full", "--", "./many"]);
    assert!(errors.contains("No space left on device"), "{errors}");
    let line = report.lines().find(|line| line.starts_with("trace ")).expect("a trace");
    let path = line.split_whitespace().nth(1).expect("a path");
    assert!(path.starts_with(".unsnarl/many-found-"), "{report}");
    assert_replays(&place, path);
}

#[test]
fn parallel_searches_in_one_directory_save_a_trace_each() {
    const SEARCHES: usize = 12;
    let place = Place::new("parallel");
    compile(&place, "many", MANY_FAILURES);
    let start = |_| start(&place, &["explore", "--json", "-j", "1", "--", "./many"]);
    let searches: Vec<Child> = (0..SEARCHES).map(start).collect();
    let mut paths = BTreeSet::new();
    for search in searches {
        let output = search.wait_with_output().expect("an end");
        assert_eq!(output.status.code(), Some(100), "{}", printed(&output));
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        paths.insert(report["trace"].as_str().expect("a path").to_owned());
    }
    assert_eq!(paths.len(), SEARCHES, "{paths:?}");
    let traces = entries(&place).into_iter().filter(|path| !path.ends_with("latest.snarl"));
    let traces: Vec<PathBuf> = traces.filter(|path| path.extension().is_some_and(|e| e == "snarl")).collect();
    assert_eq!(traces.len(), SEARCHES, "no drafts are left: {traces:?}");
    for path in &paths {
        assert_replays(&place, path);
    }
}

/// Fills a pipe, and does not end.
const FILLS: &str = r#"
#include <stdio.h>
int main(void)
{
    for (int i = 0; i < 100000; i++) puts("a line of output that fills the pipe");
    fflush(stdout);
    for (volatile unsigned long i = 0;; i++) {}
}
"#;

/// Nobody reads the pipe until the program has ended.
#[test]
fn limits_hold_if_nobody_reads_the_output() {
    let place = Place::new("pipe");
    compile(&place, "fills", FILLS);
    for (limit, value, named) in [("--timeout", "500ms", "time"), ("--max-output", "1", "output")] {
        let _ = fs::remove_file(place.path("t.snarl"));
        let mut child = start(&place, &["record", limit, value, "-o", "t.snarl", "--", "./fills"]);
        let begin = Instant::now();
        let mut started = false;
        loop {
            let runs = !processes(&place, "fills").is_empty();
            if started && !runs {
                break;
            }
            started |= runs;
            assert!(begin.elapsed() < Duration::from_secs(120), "{limit}: the program still runs");
            std::thread::yield_now();
        }
        let mut text = String::new();
        child.stdout.take().expect("a pipe").read_to_string(&mut text).expect("text");
        let output = child.wait_with_output().expect("an end");
        assert_eq!(output.status.code(), Some(104), "{limit}: {}", printed(&output));
        assert!(text.contains("a line of output"), "{limit}");
        let shown = place.unsnarl(0, &["show", "t.snarl"]);
        assert!(
            shown.contains(&format!("the limit on {named}")) || shown.contains("the time limit"),
            "{shown}"
        );
    }
}
