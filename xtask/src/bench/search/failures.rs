//! Schedules to the first failure by strategy, with published figures.

use super::{Bench, STRATEGIES, heads, print_columns};
use crate::bench::BenchEffort;
use anyhow::Result;
use serde_json::Value;
use std::collections::BTreeMap;

/// Maximum numbers of runs of a search, and of the systematic one, which has no seeds.
const MAX_RUNS: u64 = 2_000;
const MAX_SYSTEMATIC: u64 = 5_000;
/// Runs that a strategy other than the portfolio gets for a program. If they are used up before all seeds were tried,
/// the figures are those of fewer seeds.
const BUDGET: u64 = 2 * MAX_RUNS;

/// The programs, with the best published mean of schedules to the first failure, and its source.
const PROGRAMS: &[(&str, Option<(f64, &str)>)] = &[
    ("account", None),
    ("bluetooth", Some((9.0, "PERIOD"))),
    ("bounded_buffer", None),
    ("circular_buffer", None),
    ("compressor_pipeline", None),
    ("dining_2", None),
    ("dining_3", None),
    ("dining_4", None),
    ("dining_5", None),
    ("dining_6", None),
    ("dining_7", None),
    ("file_scanner", None),
    ("lazy_init", None),
    ("qsort_mt", Some((27.0, "PERIOD"))),
    ("queue", None),
    ("reorder_3", None),
    ("reorder_4", None),
    ("reorder_5", None),
    ("reorder_10", Some((6.0, "RFF"))),
    ("reorder_20", None),
    ("reorder_100", Some((6.0, "RFF"))),
    ("stack", None),
    ("stringbuffer", Some((15.0, "RFF"))),
    ("token_ring", None),
    ("twostage_2", None),
    ("twostage_100", Some((56.0, "RFF"))),
    ("workstealing_queue", None),
    ("wronglock", None),
];

/// The lock-free stack, for which no published tool reports a success.
const HARD: &str = "safestack";

/// Results of several searches by one strategy.
#[derive(Default)]
struct Searches {
    found: u64,
    made: u64,
    runs: f64,
    seconds: f64,
}

impl Searches {
    fn of(all: &[Value], strategy: &str) -> Self {
        let mut sum = Self::default();
        for search in all.iter().filter(|search| search["strategy"] == strategy) {
            sum.made += 1;
            sum.seconds += search["elapsed_s"].as_f64().unwrap_or(0.0);
            if search["found"] == true {
                sum.found += 1;
                sum.runs += search["runs"].as_f64().unwrap_or(0.0);
            }
        }
        sum
    }

    fn mean(&self) -> Option<f64> {
        (self.found > 0).then(|| self.runs / self.found as f64)
    }

    /// Formats the mean over the successful searches, and their number if not all were.
    fn show(&self) -> String {
        match self.mean() {
            Some(mean) if self.found == self.made => format!("{mean:.1}"),
            Some(mean) => format!("{mean:.1} ({}/{})", self.found, self.made),
            None => "–".into(),
        }
    }
}

impl Bench {
    /// Prints the first table, and CHESS compared with race-directed search as in the Tinertia paper's table 3.
    pub(super) fn schedules_to_failure(&self, effort: BenchEffort) -> Result<()> {
        let seeds = match effort {
            BenchEffort::Quick => 3,
            BenchEffort::Full => 20,
        };
        let mut rows = vec![heads(&[
            "schedules to the first failure",
            STRATEGIES[0],
            STRATEGIES[1],
            STRATEGIES[2],
            STRATEGIES[3],
            STRATEGIES[4],
            STRATEGIES[5],
            STRATEGIES[6],
            "published",
            "met?",
        ])];
        let mut against = vec![heads(&["CHESS against race-directed", "runs", "seconds", "runs", "seconds"])];
        for (name, published) in PROGRAMS {
            eprintln!("{name}");
            let program = self.program(name)?;
            let others = STRATEGIES.into_iter().filter(|name| !["portfolio", "chess"].contains(name));
            let mut by: Vec<_> = others.map(|name| (name, seeds, BUDGET)).collect();
            by.push(("portfolio", seeds, u64::MAX));
            let mut searches = self.searches(&program, MAX_RUNS, &by)?;
            searches.extend(self.searches(&program, MAX_SYSTEMATIC, &[("chess", 1, 1)])?);
            let by_strategy: BTreeMap<_, _> =
                STRATEGIES.iter().map(|&name| (name, Searches::of(&searches, name))).collect();
            let best = published.map_or_else(String::new, |(best, who)| format!("{best} {who}"));
            let met = published.map_or("", |(best, _)| match &by_strategy["portfolio"] {
                ours if ours.found == ours.made && ours.mean().is_some_and(|mean| mean <= best) => "yes",
                _ => "no",
            });
            let figures = STRATEGIES.map(|strategy| by_strategy[strategy].show());
            rows.push([name.to_string()].into_iter().chain(figures).chain([best, met.into()]).collect());
            let side = |strategy: &str| {
                let searches = &by_strategy[strategy];
                [searches.show(), format!("{:.3}", searches.seconds / searches.made as f64)]
            };
            let sides = side("chess").into_iter().chain(side("race"));
            against.push([name.to_string()].into_iter().chain(sides).collect());
        }
        println!(
            "means over {seeds} seeds, or of as many as {BUDGET} runs were enough for, with (found/tried) if some gave up \
             after {MAX_RUNS} runs; – if all did; CHESS, which has no seed, gives up after {MAX_SYSTEMATIC}\n"
        );
        print_columns(&rows);
        print_columns(&against);
        Ok(())
    }

    pub(super) fn hard(&self, effort: BenchEffort) -> Result<()> {
        let (seeds, most) = match effort {
            BenchEffort::Quick => (1, "100000"),
            BenchEffort::Full => (3, "300000"),
        };
        let program = self.program(HARD)?;
        for seed in 1..=seeds {
            eprintln!("{HARD}, seed {seed}");
            let search = self.explore(&program, &["--runs", most, "--seed", &seed.to_string()])?;
            let verdict = if search["found"] == true { "found" } else { "not found" };
            println!(
                "{HARD}, portfolio, seed {seed}: {verdict} in {} runs, {:.0} s ({}); published: nobody",
                search["runs"],
                search["elapsed_s"].as_f64().unwrap_or(0.0),
                search["policy"].as_str().unwrap_or("no policy"),
            );
        }
        println!();
        Ok(())
    }
}
