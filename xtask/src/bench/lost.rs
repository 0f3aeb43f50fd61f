//! `cargo xtask bench lost`: searches and simplifications are killed at random moments, and so are their programs. Every
//! failure that was reported by then must be on disk and replay.

use crate::tools;
use crate::workspace::{Workspace, output};
use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

/// Searches that run at once in one directory.
const SEARCHES: usize = 64;

/// Each order in which four threads arrive is a failure of its own.
const PROGRAM: &str = r#"
#include <pthread.h>
#include <stdlib.h>
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int places[4], next;
static void *arrive(void *number) {
  pthread_mutex_lock(&mutex);
  places[(long)number] = next++;
  pthread_mutex_unlock(&mutex);
  return 0;
}
int main(void) {
  pthread_t threads[4];
  for (long i = 0; i < 4; i++) pthread_create(&threads[i], 0, arrive, (void *)i);
  for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
  exit(places[0] * 16 + places[1] * 4 + places[2]);
}
"#;

pub(crate) fn bench(kills: usize) -> Result<()> {
    let workspace = Workspace::find()?;
    tools::require(tools::COMPILERS)?;
    eprintln!("building unsnarl");
    let bench = Bench { unsnarl: workspace.build_unsnarl()?, directory: workspace.scratch("bench-lost")? };
    fs::write(bench.directory.join("program.c"), PROGRAM)?;
    let mut compiler = bench.unsnarl(&bench.directory);
    compiler.args(["cc", "-O1", "-g", "-pthread", "-o", "program", "program.c"]);
    output(&mut compiler, "unsnarl cc")?;
    let buffer = workspace.root.join("programs/c/bounded_buffer.c");
    let mut compiler = bench.unsnarl(&bench.directory);
    compiler.args(["cc", "-O1", "-g", "-pthread", "-o", "buffer"]).arg(buffer);
    output(&mut compiler, "unsnarl cc")?;
    let mut random = Random(0x5eed);
    let mut lost = 0;
    for (name, part) in [
        ("controller", Bench::kill_controller as fn(&Bench, usize, Duration) -> Result<Killed>),
        ("program", Bench::kill_program),
        ("simplify", Bench::kill_simplification),
    ] {
        let count = if name == "simplify" { kills / 2 } else { kills };
        let mut all = Killed::default();
        for number in 0..count {
            let killed = part(&bench, number, Duration::from_micros(random.below(400_000)))
                .with_context(|| format!("{name}, {number}"))?;
            all.kills += killed.kills;
            all.reported += killed.reported;
            all.on_disk += killed.on_disk;
        }
        let Killed { kills, reported, on_disk } = all;
        println!("{name:<12} killed {kills:>4} times: {reported:>5} failures reported, {on_disk:>5} on disk");
        lost += reported - on_disk;
    }
    let traces = bench.search_in_parallel()?;
    println!("{SEARCHES} parallel searches in one directory: {traces} traces");
    if lost > 0 || traces != SEARCHES {
        bail!("{lost} failures and {} traces are lost", SEARCHES - traces.min(SEARCHES));
    }
    println!("nothing is lost");
    Ok(())
}

/// The failures that were reported before processes were killed.
#[derive(Default)]
struct Killed {
    kills: usize,
    reported: usize,
    on_disk: usize,
}

struct Bench {
    unsnarl: PathBuf,
    directory: PathBuf,
}

impl Bench {
    fn unsnarl(&self, folder: &Path) -> Command {
        let mut command = Command::new(&self.unsnarl);
        command.current_dir(folder).stdin(Stdio::null());
        command
    }

    fn folder(&self, name: &str, number: usize) -> Result<PathBuf> {
        let folder = self.directory.join(format!("{name}-{number}"));
        fs::create_dir_all(&folder)?;
        Ok(folder)
    }

    fn kill_controller(&self, number: usize, after: Duration) -> Result<Killed> {
        let folder = self.folder("controller", number)?;
        let mut search = self.unsnarl(&folder);
        search.args(["explore", "--keep-going", "--runs", "1000000", "--", "../program"]);
        let mut search = search.stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
        let stderr = search.stderr.take().context("a pipe")?;
        thread::sleep(after);
        search.kill()?;
        search.wait()?;
        let lines = BufReader::new(stderr).lines().map_while(Result::ok);
        let paths: Vec<String> =
            lines.filter_map(|line| Some(line.split_once("; saved as ")?.1.to_owned())).collect();
        let on_disk = paths.iter().filter(|path| self.replays(&folder, path)).count();
        Ok(Killed { kills: 1, reported: paths.len(), on_disk })
    }

    fn kill_program(&self, number: usize, after: Duration) -> Result<Killed> {
        let folder = self.folder("program", number)?;
        let mut search = self.unsnarl(&folder);
        search.args(["explore", "--keep-going", "--json", "--runs", "2000", "--", "../program"]);
        let search = search.stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        thread::sleep(after / 4);
        let processes = descendants(search.id());
        let chosen = processes.get(number % processes.len().max(1));
        if let Some(process) = chosen {
            Command::new("kill").args(["-KILL", &process.to_string()]).stderr(Stdio::null()).status()?;
        }
        let ended = search.wait_with_output()?;
        let report: Value = serde_json::from_slice(&ended.stdout).context("explore prints JSON")?;
        ensure!(report["runs"] == 2000, "the search ended early: {report}");
        let failures = report["failures"].as_array().context("failures")?;
        let paths: Vec<&str> = failures.iter().filter_map(|failure| failure["trace"].as_str()).collect();
        let on_disk = paths.iter().filter(|path| self.replays(&folder, path)).count();
        Ok(Killed { kills: usize::from(chosen.is_some()), reported: failures.len(), on_disk })
    }

    fn kill_simplification(&self, number: usize, after: Duration) -> Result<Killed> {
        let folder = self.folder("simplify", number)?;
        let seed = number.to_string();
        let mut search = self.unsnarl(&folder);
        search.args([
            "explore",
            "--strategy",
            "random",
            "--seed",
            &seed,
            "-o",
            "bug.snarl",
            "--",
            "../buffer",
        ]);
        search.stdout(Stdio::null()).status()?;
        let mut simplify = self.unsnarl(&folder);
        simplify.args(["simplify", "bug.snarl", "--prove", "--executions", "1000000"]);
        let mut simplify = simplify.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        thread::sleep(after);
        simplify.kill()?;
        simplify.wait()?;
        let traces = traces_in(&folder.join(".unsnarl"))?;
        let paths = traces.iter().map(|path| path.to_string_lossy().into_owned());
        let paths: Vec<String> = paths.chain(["bug.snarl".to_owned()]).collect();
        let on_disk = paths.iter().filter(|path| self.replays(&folder, path)).count();
        Ok(Killed { kills: 1, reported: paths.len(), on_disk })
    }

    /// Returns the number of traces of searches that run at once.
    fn search_in_parallel(&self) -> Result<usize> {
        let folder = self.folder("parallel", 0)?;
        let start = |_| {
            let mut search = self.unsnarl(&folder);
            search.args(["explore", "-j", "1", "--json", "--", "../program"]);
            search.stdout(Stdio::piped()).stderr(Stdio::null()).spawn()
        };
        let searches: Vec<_> = (0..SEARCHES).map(start).collect::<Result<_, _>>()?;
        let mut paths = BTreeSet::new();
        for search in searches {
            let report: Value = serde_json::from_slice(&search.wait_with_output()?.stdout)?;
            let path = report["trace"].as_str().context("a trace")?.to_owned();
            ensure!(self.replays(&folder, &path), "{path} does not replay");
            paths.insert(path);
        }
        let there = traces_in(&folder.join(".unsnarl"))?.len();
        ensure!(there == paths.len(), "{there} files for {} failures", paths.len());
        Ok(paths.len())
    }

    fn replays(&self, folder: &Path, trace: &str) -> bool {
        let replay = self.unsnarl(folder).args(["replay", "--json", trace]).output();
        let report = replay.ok().and_then(|replay| serde_json::from_slice::<Value>(&replay.stdout).ok());
        let replays = report.is_some_and(|report| report["reproduced"] == true);
        if !replays {
            println!("{}/{trace} does not replay", folder.display());
        }
        replays
    }
}

/// Returns the traces in a directory, which need not exist.
fn traces_in(directory: &Path) -> Result<Vec<PathBuf>> {
    let Ok(entries) = fs::read_dir(directory) else { return Ok(Vec::new()) };
    let mut traces = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
        if path.extension().is_some_and(|end| end == "snarl") && !hidden && !path.ends_with("latest.snarl") {
            traces.push(path);
        }
    }
    Ok(traces)
}

/// Returns all processes below this one.
fn descendants(process: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let children = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    let children: Vec<u32> = children
        .flat_map(|line| line.split_whitespace().filter_map(|n| n.parse().ok()).collect::<Vec<_>>())
        .collect();
    let below: Vec<u32> = children.iter().flat_map(|&child| descendants(child)).collect();
    children.into_iter().chain(below).collect()
}

/// A small generator, so that the moments are the same in each measurement.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}
