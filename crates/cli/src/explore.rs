//! `unsnarl explore`: the search for a failing schedule.

use crate::{
    options::{Run, Target, duration},
    output,
    replay::replay,
    target, traces,
    verdict::{Verdict, WrongUsage},
};
use anyhow::Result;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::{Value, json};
use std::{
    collections::HashSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};
use unsnarl_exec::{Error, Executor, Settings};
use unsnarl_model::{Plan, Policy, Trace};
use unsnarl_search::{Pct, Portfolio, Seen, Strategy, Walk};

/// Search for a failing schedule and save its trace
#[derive(clap::Args)]
pub(crate) struct Explore {
    /// How to search
    ///
    /// random: anyone at each point, with the same chance; pct[:D]: random priorities with D - 1 drops;
    /// pos: partial order sampling; portfolio: all of them in turn
    #[arg(long, default_value = "portfolio", value_name = "NAME")]
    strategy: String,
    /// Give up after this many runs
    #[arg(long, value_name = "N", default_value_t = 1000)]
    runs: u64,
    /// Give up after this much time
    #[arg(long, value_name = "TIME", value_parser = duration)]
    time: Option<Duration>,
    /// The seed of the first run; each further run takes the next
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    run: Run,
    #[command(flatten)]
    target: Target,
}

/// What the search came to.
struct Search {
    runs: u64,
    schedules: HashSet<u64>,
    elapsed: Duration,
    found: Option<Trace>,
    interrupted: bool,
}

impl Explore {
    pub(crate) fn run(self) -> Result<Verdict> {
        let program = target::program(&self.target)?;
        let mut strategy = self.strategy()?;
        let interrupt = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&interrupt);
        ctrlc::set_handler(move || flag.store(true, Ordering::Relaxed))?;
        let settings = Settings { interrupt: Some(interrupt), serve: true, ..Settings::default() };
        let mut executor = Executor::new(program, settings)?;
        let search = self.search(&mut *strategy, &mut executor)?;
        self.tell(&search, &strategy.name())
    }

    fn strategy(&self) -> Result<Box<dyn Strategy>> {
        let plan = self.run.plan(Policy::Random, self.seed);
        let (name, figure) = self.strategy.split_once(':').unwrap_or((&self.strategy, ""));
        let wrong = || {
            WrongUsage(format!("no strategy `{}`: there are random, pct[:D], pos, portfolio", self.strategy))
        };
        Ok(match (name, figure) {
            ("random", "") => Box::new(Walk::new(plan, Policy::Random)),
            ("pos", "") => Box::new(Walk::new(plan, Policy::Pos)),
            ("pct", "") => Box::new(Pct::new(plan, 3)),
            ("pct", depth) => Box::new(Pct::new(plan, depth.parse().map_err(|_| wrong())?)),
            ("portfolio", "") => Box::new(Portfolio::new(&plan)),
            _ => return Err(wrong().into()),
        })
    }

    fn search(&self, strategy: &mut dyn Strategy, executor: &mut Executor) -> Result<Search> {
        let begin = Instant::now();
        let progress = progress(self.runs, self.run.json);
        let mut search = Search {
            runs: 0,
            schedules: HashSet::new(),
            elapsed: Duration::ZERO,
            found: None,
            interrupted: false,
        };
        while search.runs < self.runs && self.time.is_none_or(|most| begin.elapsed() < most) {
            let Some(plan) = strategy.next() else { break };
            match self.attempt(executor, &plan, &mut search.schedules) {
                Ok((found, seen)) => {
                    search.found = found;
                    strategy.learn(&seen);
                }
                Err(error) if matches!(error.downcast_ref(), Some(Error::Interrupted)) => {
                    search.interrupted = true;
                    break;
                }
                Err(error) => return Err(error),
            }
            search.runs += 1;
            progress.set_position(search.runs);
            if search.runs.is_multiple_of(16) {
                progress.set_message(format!("{} distinct schedules", search.schedules.len()));
            }
            if search.found.is_some() {
                break;
            }
        }
        progress.finish_and_clear();
        search.elapsed = begin.elapsed();
        Ok(search)
    }

    /// One run: its trace if it failed, and what there is to learn from it.
    fn attempt(
        &self,
        executor: &mut Executor,
        plan: &Plan,
        schedules: &mut HashSet<u64>,
    ) -> Result<(Option<Trace>, Seen)> {
        let run = executor.run(plan)?;
        schedules.insert(run.schedule_hash());
        let seen = Seen { points: run.events() };
        if run.is_clean() {
            return Ok((None, seen));
        }
        let mut trace = run.trace();
        output::judge(&mut trace, &self.run.fail_on);
        Ok((trace.outcome.is_failure().then_some(trace), seen))
    }

    fn tell(&self, search: &Search, strategy: &str) -> Result<Verdict> {
        let path = search.found.as_ref().map(|t| traces::save(t, self.run.output.as_deref())).transpose()?;
        let seconds = search.elapsed.as_secs_f64();
        if self.run.json {
            let (outcome, stats, _) =
                search.found.as_ref().map_or((Value::Null, Value::Null, Value::Null), output::told);
            output::json(&json!({
                "found": search.found.is_some(), "runs": search.runs, "elapsed_s": seconds, "trace": path,
                "seed": search.found.as_ref().map_or(self.seed, |t| t.plan.seed), "strategy": strategy,
                "policy": search.found.as_ref().map(|t| t.plan.tail.name()),
                "distinct_schedules": search.schedules.len(), "interrupted": search.interrupted,
                "outcome": outcome, "stats": stats,
            }));
        } else if let (Some(trace), Some(path)) = (&search.found, &path) {
            output::print(&output::outcome(trace));
            let path = output::quoted(path);
            output::print(&format!(
                "\nfound    in run {} of {} by {}, {seconds:.2} s, seed {}\n\
                 trace    {path} ({})\n\
                 replay   unsnarl replay {path}{}\n\
                 show     unsnarl show {path}\n\
                 again    unsnarl record --seed {} --strategy {} -- {}\n",
                search.runs,
                self.runs,
                trace.plan.tail.name(),
                trace.plan.seed,
                output::figures(trace),
                certainty(trace),
                trace.plan.seed,
                trace.plan.tail.name(),
                self.target
                    .program
                    .iter()
                    .map(|arg| output::quoted(arg.as_ref()))
                    .collect::<Vec<_>>()
                    .join(" "),
            ));
        } else {
            let (runs, distinct) = (search.runs, search.schedules.len());
            let why = if search.interrupted { ", interrupted" } else { "" };
            output::print(&format!(
                "no failure in {runs} runs ({distinct} distinct schedules, {seconds:.2} s){why}\n\
                 next     more --runs, another --seed, or accesses as points: build with `unsnarl cc`\n"
            ));
        }
        Ok(match (&search.found, search.interrupted) {
            (Some(_), _) => Verdict::Failure,
            (None, true) => Verdict::Interrupted,
            (None, false) => Verdict::Fine,
        })
    }
}

/// One replay, to say for certain that the trace replays.
fn certainty(trace: &Trace) -> &'static str {
    match replay(trace, &trace.replay_plan(), Settings::default()) {
        Ok(replayed) if replayed.reproduced && replayed.identical => "   (tried: identical)",
        Ok(replayed) if replayed.reproduced => "   (tried: the same failure)",
        _ => "   (tried: it does NOT reproduce; the program depends on something outside)",
    }
}

/// A line on the terminal while the search goes on.
fn progress(runs: u64, quiet: bool) -> ProgressBar {
    if quiet {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::with_draw_target(Some(runs), ProgressDrawTarget::stderr_with_hz(10));
    let template = "{bar:30} {pos}/{len} runs, {per_sec}, {msg}, {eta} left";
    bar.with_style(ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()))
}
