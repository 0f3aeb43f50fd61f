//! `cargo xtask bench simplify programs`: every failing program of `programs/`, simplified in each way.

use super::{Bench, FailingProgram};
use anyhow::{Context, Result};
use serde_json::Value;

/// Sums over the traces of a program, or of all.
#[derive(Default)]
pub(super) struct Sums {
    pub(super) traces: f64,
    pub(super) before: [f64; 5],
    pub(super) after: [f64; 5],
    executions: f64,
    /// The executions that looked for something better than the result.
    search_executions: f64,
    quick_executions: f64,
    rounds: f64,
    seconds: f64,
    /// Traces for which Tinertia alone gives a better result.
    worse: f64,
    their_switches: f64,
    their_preemptions: f64,
    their_executions: f64,
    /// Sums over the traces whose exact minimum is known.
    proved: f64,
    preemptions_above: f64,
    within_one_switch: f64,
    /// Traces that reproduce each time.
    reproduced: f64,
}

/// The head of a table of [`Sums::row`].
const HEAD: &str = "\
| program | traces | events | threads | switches | non-preemptive | preemptive | reduction | Tinertia leaves | runs | rounds | time | above the minimum | reproduced |
|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|";

const FIGURES: [&str; 5] = ["events", "threads", "context_switches", "non_preemptive", "preemptive"];

impl Sums {
    fn add(&mut self, trace: &Value, replays: u64) {
        let number = |value: &Value| value.as_f64().unwrap_or(0.0);
        self.traces += 1.0;
        for (at, name) in FIGURES.iter().enumerate() {
            self.before[at] += number(&trace["before"][name]);
            self.after[at] += number(&trace["after"][name]);
        }
        self.executions += number(&trace["executions"]);
        self.search_executions += number(&trace["search_executions"]);
        self.rounds += number(&trace["rounds"]);
        self.seconds += number(&trace["elapsed_s"]);
        self.quick_executions += number(&trace["quick"]["executions"]);
        let theirs = &trace["tinertia"];
        let cost = |after: &Value| [number(&after["context_switches"]), number(&after["preemptive"])];
        self.worse += f64::from(u8::from(cost(&trace["after"]) > cost(&theirs["after"])));
        self.their_switches += number(&theirs["after"]["context_switches"]);
        self.their_preemptions += number(&theirs["after"]["preemptive"]);
        self.their_executions += number(&theirs["executions"]);
        if let Some(minimum) = trace["minimum"].as_object() {
            let above = |name: &str| number(&trace["after"][name]) - number(&minimum[name]);
            self.proved += 1.0;
            self.preemptions_above += above("preemptive");
            self.within_one_switch += f64::from(u8::from(above("context_switches") <= 1.0));
        }
        self.reproduced += f64::from(u8::from(trace["reproduced"].as_u64() == Some(replays)));
    }

    fn merge(&mut self, other: &Self) {
        self.traces += other.traces;
        for at in 0..FIGURES.len() {
            self.before[at] += other.before[at];
            self.after[at] += other.after[at];
        }
        self.executions += other.executions;
        self.search_executions += other.search_executions;
        self.quick_executions += other.quick_executions;
        self.worse += other.worse;
        self.rounds += other.rounds;
        self.seconds += other.seconds;
        self.their_switches += other.their_switches;
        self.their_preemptions += other.their_preemptions;
        self.their_executions += other.their_executions;
        self.proved += other.proved;
        self.preemptions_above += other.preemptions_above;
        self.within_one_switch += other.within_one_switch;
        self.reproduced += other.reproduced;
    }

    fn row(&self, name: &str) -> String {
        let mean = |sum: f64| sum / self.traces.max(1.0);
        let pair = |at: usize| format!("{:.1} → {:.1}", mean(self.before[at]), mean(self.after[at]));
        let reduction = 100.0 * (1.0 - self.after[2] / self.before[2].max(1.0));
        let above = if self.proved > 0.0 {
            format!(
                "{:.2}, {:.0} % of {:.0}",
                self.preemptions_above / self.proved,
                100.0 * self.within_one_switch / self.proved,
                self.proved
            )
        } else {
            "–".into()
        };
        format!(
            "| {name} | {:.0} | {} | {:.1} | {} | {} | {} | {reduction:.0} % | {:.1} / {:.1} | {:.1} / {:.1} + {:.1} / {:.1} | {:.1} | {:.1} ms | {above} | {:.0} % |",
            self.traces,
            pair(0),
            mean(self.before[1]),
            pair(2),
            pair(3),
            pair(4),
            mean(self.their_switches),
            mean(self.their_preemptions),
            mean(self.quick_executions),
            mean(self.executions - self.search_executions),
            mean(self.search_executions),
            mean(self.their_executions),
            mean(self.rounds),
            1e3 * mean(self.seconds),
            100.0 * self.reproduced / self.traces.max(1.0),
        )
    }
}

impl Bench {
    /// Measures every failing program: before and after, and the cost.
    pub(super) fn programs(&self, traces: u64) -> Result<()> {
        println!("\n## Every failing program, {traces} random failing traces each\n");
        let rows = self.table(&self.failing_programs()?, traces)?;
        print_comparison(&rows);
        Ok(())
    }

    /// Prints a table of these programs, and returns the sums of each with its name.
    pub(super) fn table(&self, programs: &[FailingProgram], traces: u64) -> Result<Vec<(String, Sums)>> {
        const REPLAYS: u64 = 100;
        println!(
            "Means per trace. Before → after; switches and preemptions that Tinertia alone leaves; runs with \
             `--effort 0` / by default, and those looking for something better than the result / of Tinertia alone; mean preemptions above the exact minimum and the part of traces within one context switch of \
             it, of so many where it was proved; the part of traces that fail in the same way in {REPLAYS} of \
             {REPLAYS} replays.\n"
        );
        println!("{HEAD}");
        let mut rows = Vec::new();
        for program in programs {
            let limits = ["--replays".to_owned(), REPLAYS.to_string(), "--prove".into(), "1500".into()];
            let mut sums = Sums::default();
            for trace in self.simplified(program, traces, &limits)? {
                sums.add(&trace, REPLAYS);
            }
            if sums.traces > 0.0 {
                println!("{}", sums.row(&program.name));
                rows.push((program.name.clone(), sums));
            }
        }
        println!("{}", total(&rows).row("**all**"));
        Ok(rows)
    }

    /// Simplifies random failing traces of a program; returns what `bench-simplify` prints for each.
    pub(super) fn simplified(
        &self,
        program: &FailingProgram,
        traces: u64,
        options: &[String],
    ) -> Result<Vec<Value>> {
        let FailingProgram { name, path, args, timeouts } = program;
        let mut more = vec!["--traces".to_owned(), traces.to_string()];
        more.extend_from_slice(options);
        more.extend(["--timeouts".into(), timeouts.clone(), "--".into(), path.display().to_string()]);
        more.extend_from_slice(args);
        let mut report = self.run(&["bench-simplify"], &more).with_context(|| name.clone())?;
        Ok(report["traces"].as_array_mut().map(std::mem::take).unwrap_or_default())
    }
}

/// Returns the sums over all rows of a table.
fn total(rows: &[(String, Sums)]) -> Sums {
    let mut all = Sums::default();
    rows.iter().for_each(|(_, sums)| all.merge(sums));
    all
}

/// Prints how the default compares with Tinertia alone.
pub(super) fn print_comparison(rows: &[(String, Sums)]) {
    let all = total(rows);
    println!(
        "\nRuns of Tinertia / of ours with `--effort 0`: {:.2}; / of ours by default, which goes \
         Tinertia's way as well, without the search after it: {:.2}. Traces for which the default leaves more than Tinertia alone: {}.",
        all.their_executions / all.quick_executions,
        all.their_executions / (all.executions - all.search_executions),
        all.worse
    );
}
