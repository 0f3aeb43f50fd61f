//! `cargo xtask bench soak`: ten thousand runs of mixed programs. The controller's memory must stay flat, no zombies
//! may remain, and every failing trace must replay.

use super::BenchEffort;
use crate::tools;
use crate::workspace::{Workspace, output};
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Correct and buggy programs of `programs/c`, covering the kinds of failures.
const PROGRAMS: [&str; 10] = [
    "account",
    "account_fixed",
    "abba_deadlock",
    "barrier_serial_thread",
    "bluetooth",
    "bounded_buffer",
    "openmp",
    "openmp_lost_update",
    "pipe_producer_consumer",
    "stdio_lock",
];

/// Result of a search, and observations while it ran.
pub(super) struct SoakSearch {
    pub(super) report: Value,
    /// Peak private memory, in KiB.
    pub(super) memory: u64,
    /// Maximum number of zombies that still existed after a second.
    pub(super) zombies: usize,
}

pub(crate) fn bench(effort: BenchEffort) -> Result<()> {
    let workspace = Workspace::find()?;
    tools::require(tools::COMPILERS)?;
    eprintln!("building unsnarl");
    let unsnarl = workspace.build_unsnarl()?;
    let directory = workspace.scratch("bench-soak")?;
    let runs = match effort {
        BenchEffort::Quick => 100,
        BenchEffort::Full => 1000,
    };
    println!(
        "{:<24} {:>6} {:>9} {:>9} {:>18} {:>8}",
        "program", "runs", "failures", "replayed", "memory, MiB", "zombies"
    );
    let mut wrong = 0;
    for program in PROGRAMS {
        let source = workspace.root.join("programs/c").join(program).with_extension("c");
        let path = compile(&unsnarl, &source, &directory)?;
        let quarter = search(&unsnarl, &path, "portfolio", runs / 4, &directory)?;
        let SoakSearch { report, memory, zombies } = search(&unsnarl, &path, "portfolio", runs, &directory)?;
        let failures = report["failures"].as_array().cloned().unwrap_or_default();
        let replayed = failures.iter().filter(|failure| replays(&unsnarl, failure, &directory)).count();
        let made = report["runs"].as_u64().unwrap_or(0);
        println!(
            "{program:<24} {made:>6} {:>9} {replayed:>9} {:>8.1} → {:>7.1} {:>8}",
            failures.len(),
            quarter.memory as f64 / 1024.0,
            memory as f64 / 1024.0,
            zombies + quarter.zombies
        );
        // Describing a failure takes memory at the end; four times the runs must not take more.
        let grows = memory > quarter.memory + quarter.memory / 10 + 4096;
        wrong +=
            usize::from(grows || zombies + quarter.zombies > 0 || replayed < failures.len() || made < runs);
    }
    if wrong > 0 {
        bail!(
            "{wrong} of {} programs: memory that grows, zombies, runs that are missing or failures that do not replay",
            PROGRAMS.len()
        );
    }
    println!("memory flat, no zombie, every failure replays");
    Ok(())
}

fn compile(unsnarl: &Path, source: &Path, directory: &Path) -> Result<PathBuf> {
    let program = directory.join(source.file_stem().context("a name")?);
    let expected = fs::read_to_string(source.with_extension("expect"))?;
    let flags = expected.lines().find_map(|line| line.strip_prefix("flags = ")).unwrap_or_default();
    let mut command = Command::new(unsnarl);
    command
        .args(["cc", "-O1", "-g", "-pthread"])
        .arg(source)
        .arg("-o")
        .arg(&program)
        .args(flags.split_whitespace());
    output(&mut command, "unsnarl cc")?;
    Ok(program)
}

/// Makes a search and observes it.
pub(super) fn search(
    unsnarl: &Path,
    program: &Path,
    strategy: &str,
    runs: u64,
    directory: &Path,
) -> Result<SoakSearch> {
    let mut search = Command::new(unsnarl)
        .args([
            "explore",
            "--keep-going",
            "--json",
            "--strategy",
            strategy,
            "--runs",
            &runs.to_string(),
            "--",
        ])
        .arg(program)
        .current_dir(directory)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let mut stdout = search.stdout.take().context("it was asked for")?;
    let printed = thread::spawn(move || {
        let mut text = Vec::new();
        stdout.read_to_end(&mut text).map(|_| text)
    });
    let (memory, zombies) = watch(&mut search)?;
    let printed = printed.join().ok().context("a reader that ends")??;
    let report = serde_json::from_slice(&printed).context("explore prints JSON")?;
    Ok(SoakSearch { report, memory, zombies })
}

/// Observes a process until it ends: its peak memory, and the number of zombies that stayed. Each child is one for a
/// moment.
fn watch(search: &mut Child) -> Result<(u64, usize)> {
    const A_MOMENT: Duration = Duration::from_secs(1);
    let mut most = 0;
    let mut since: HashMap<u32, Instant> = HashMap::new();
    let mut stayed: HashSet<u32> = HashSet::new();
    while search.try_wait()?.is_none() {
        let status = fs::read_to_string(format!("/proc/{}/status", search.id())).unwrap_or_default();
        let memory = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
        let memory: Option<u64> = memory.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
        most = most.max(memory.unwrap_or(0));
        let dead = zombies(search.id());
        since.retain(|zombie, _| dead.contains(zombie));
        stayed.extend(
            dead.into_iter()
                .filter(|&zombie| since.entry(zombie).or_insert_with(Instant::now).elapsed() > A_MOMENT),
        );
        thread::sleep(Duration::from_millis(2));
    }
    Ok((most, stayed.len()))
}

fn zombies(parent: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{parent}/task")).into_iter().flatten().flatten();
    let children = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    let children: Vec<u32> = children
        .flat_map(|line| line.split_whitespace().filter_map(|n| n.parse().ok()).collect::<Vec<_>>())
        .collect();
    let is_zombie = |child: &u32| {
        let report = fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
        report.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('Z'))
    };
    // Runs are children of the program that waits before main.
    let below: Vec<u32> = children.iter().flat_map(|&child| zombies(child)).collect();
    children.into_iter().filter(is_zombie).chain(below).collect()
}

/// Returns whether a failure's trace reproduces the failure, event for event.
fn replays(unsnarl: &Path, failure: &Value, directory: &Path) -> bool {
    let Some(trace) = failure["trace"].as_str() else { return false };
    let replay = Command::new(unsnarl).args(["replay", "--json", trace]).current_dir(directory).output();
    let report = replay.ok().and_then(|replay| serde_json::from_slice::<Value>(&replay.stdout).ok());
    report.is_some_and(|report| report["reproduced"] == true && report["identical"] == true)
}
