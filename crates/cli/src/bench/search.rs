//! `unsnarl bench-search`: searches by several strategies from several seeds, in one process that loads the program
//! once. The details of failures are not looked up.

use crate::{
    explore::{SearchOptions, interrupt},
    options::Target,
    output, target,
    verdict::Verdict,
};
use anyhow::Result;
use serde_json::json;

/// Search by several strategies from several seeds
#[derive(clap::Args)]
pub(crate) struct BenchSearch {
    /// A strategy, its number of seeds, and the number of runs after which it gets no further seed: `random/20/4000`
    #[arg(long = "by", value_name = "NAME/SEEDS/RUNS", value_parser = by, required = true)]
    by: Vec<(String, u64, u64)>,
    #[command(flatten)]
    options: SearchOptions,
    #[command(flatten)]
    target: Target,
}

fn by(text: &str) -> Result<(String, u64, u64), String> {
    let mut parts = text.rsplitn(3, '/');
    let mut number = || parts.next().and_then(|part| part.parse().ok()).ok_or("a number is missing");
    let (runs, seeds) = (number()?, number()?);
    Ok((parts.next().ok_or("a strategy is missing")?.to_owned(), seeds, runs))
}

impl BenchSearch {
    pub(crate) fn run(self) -> Result<Verdict> {
        let program = target::program(&self.target)?;
        let mut searches = Vec::new();
        self.options.explore_repeatedly(&program, &self.by, &interrupt()?, |strategy, seed, search, races| {
            searches.push(json!({
                "strategy": strategy, "seed": seed, "found": !search.failures.0.is_empty(), "runs": search.runs,
                "elapsed_s": search.elapsed.as_secs_f64(), "races": races,
            }));
        })?;
        output::json(&json!({ "searches": searches }));
        Ok(Verdict::Fine)
    }
}
