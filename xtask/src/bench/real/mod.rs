//! `cargo xtask bench real`: programs that others wrote, with unsnarl's default options.
//!
//! Each program is installed or built here, and known to be correct. Counted are: recordings with the right result,
//! identical replays, and, in a search of bounded time, failures, runs that were undecided, and data races. All of the
//! last three should be none. `--times` measures the cost of control instead.

mod catalog;
mod servers;
pub(crate) mod times;
mod trial;

use crate::tools;
use crate::workspace::Workspace;
use anyhow::Result;
use catalog::SUBJECTS;
use servers::{Host, SERVERS};
use trial::{Bench, SCHEDULES};

/// Tries all programs, or those of these names.
pub(crate) fn bench(programs: &[&str]) -> Result<()> {
    let selected = |name: &str| programs.is_empty() || programs.contains(&name);
    let workspace = Workspace::find()?;
    tools::require(tools::COMPILERS)?;
    eprintln!("building unsnarl");
    let bench = Bench {
        unsnarl: workspace.build_unsnarl()?,
        sources: workspace.root.join("xtask/bench/real"),
        directory: workspace.download_dir("bench-real-programs")?,
    };
    println!(
        "{:<24} {:>7} {:>9} {:>7} {:>8} {:>9} {:>5}",
        "program", "right", "identical", "runs", "failures", "undecided", "races"
    );
    for subject in SUBJECTS.iter().filter(|subject| selected(subject.name)) {
        match tools::require(subject.tools).and_then(|()| bench.run_trial(subject)) {
            Ok(row) => println!("{:<24} {row}", subject.name),
            Err(error) => println!("{:<24} not tried: {error:#}", subject.name),
        }
    }
    for server in SERVERS.iter().filter(|server| selected(server.name)) {
        tools::require(server.tools)?;
        let host = Host { unsnarl: &bench.unsnarl, directory: &bench.directory };
        let (mut right, mut identical) = (0, 0);
        let mut notes = String::new();
        for seed in 1..=SCHEDULES {
            match host.record(server, seed) {
                Ok(_) => right += 1,
                Err(error) => notes = format!("\n    seed {seed}: {error:#}"),
            }
            identical += u64::from(host.replays()?);
        }
        println!("{:<24} {right:>4}/{SCHEDULES} {identical:>6}/{SCHEDULES}{notes}", server.name);
    }
    Ok(())
}
