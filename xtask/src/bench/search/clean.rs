//! Checks that a search reports no false failures, does not grow, and leaves no processes behind.

use super::{Bench, STRATEGIES};
use crate::bench::{BenchEffort, soak};
use anyhow::Result;

impl Bench {
    /// Checks that correct programs show no failure with any strategy.
    pub(super) fn clean(&self, effort: BenchEffort) -> Result<()> {
        let runs = match effort {
            BenchEffort::Quick => 100,
            BenchEffort::Full => 1000,
        };
        let mut names: Vec<String> = std::fs::read_dir(&self.programs)?
            .filter_map(|entry| entry.ok()?.path().file_stem()?.to_str().map(str::to_owned))
            .collect();
        names.sort();
        names.dedup();
        let (mut programs, mut searches, mut failures, mut races) = (0, 0, Vec::new(), Vec::new());
        for name in names {
            let is = |key: &str, value: &str| self.expectation(&name, key).is_ok_and(|is| is == value);
            let plain =
                self.expectation(&name, "args")?.is_empty() && self.expectation(&name, "stdin")?.is_empty();
            if !is("correct", "true") || !is("outcome", "exit 0") || !plain {
                continue;
            }
            eprintln!("correct: {name}");
            let program = self.program(&name)?;
            programs += 1;
            for search in self.searches(&program, runs, &STRATEGIES.map(|name| (name, 1, 1)))? {
                searches += search["runs"].as_u64().unwrap_or(0);
                let name = format!("{name} by {}", search["strategy"]);
                if search["found"] == true {
                    failures.push(name.clone());
                }
                if search["races"] != 0 {
                    races.push(name);
                }
            }
        }
        println!(
            "{programs} correct programs, {searches} runs by {} strategies: {} failures, {} races {failures:?} {races:?}\n",
            STRATEGIES.len(),
            failures.len(),
            races.len()
        );
        Ok(())
    }

    /// Compares the controller's memory after few and after many runs, and counts remaining processes and zombies.
    pub(super) fn memory(&self) -> Result<()> {
        let program = self.program("mutex_counter")?;
        let watched = |runs: u64| {
            eprintln!("{runs} runs");
            soak::search(&self.unsnarl, &program, "random", runs, &self.directory)
        };
        let (few, many) = (watched(1_000)?, watched(10_000)?);
        println!(
            "memory of the controller, KiB: {} in 1,000 runs, {} in {} runs; zombies: {}; processes left: {}\n",
            few.memory,
            many.memory,
            many.report["runs"],
            few.zombies + many.zombies,
            running(&program),
        );
        Ok(())
    }
}

/// Returns the number of processes of this program.
fn running(program: &std::path::Path) -> usize {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    processes
        .filter(|process| std::fs::read_link(process.path().join("exe")).is_ok_and(|exe| exe == program))
        .count()
}
