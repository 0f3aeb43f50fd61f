//! `unsnarl explore`: the search for a failing schedule.

pub(crate) mod budget;
mod failures;
pub(crate) mod found;
pub(crate) mod predicate;
mod race;
mod start_snapshot;
mod verification;

use crate::{
    checkpoint, coverage,
    examined::{Claim, Examined},
    judge,
    options::{FailOn, Follow, PointSet, RunArgs, Target, duration},
    output,
    pool::Pool,
    report, target, traces,
    verdict::{UsageError, Verdict},
};
use anyhow::Result;
use budget::Budget;
use failures::{Failure, Failures};
use found::{Destination, FoundTraces, SavedTrace};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, HashSet},
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};
use unsnarl_exec::{Error, Executor, HiddenInfluences, Settings, WithheldTimeouts};
use unsnarl_model::{
    Conflict, ConflictKind, EnabledThreads, Limit, Misuse, Module, OutcomeKind, Plan, Policy, Program, Trace,
};
use unsnarl_report::{Case, CaseResult, junit};
use unsnarl_search::{
    Chess, ClassSampling, CompleteSearch, Coverage, IncompleteReason, Novelty, PctStrategy, Portfolio,
    RaceDirectedStrategy, Randomness, RunSteps, RunSummary, SeedSweep, Strategy, schedule_class,
};
pub(crate) use verification::{NOT_REPRODUCED, SAME_FAILURE};
use verification::{UnreproducedFailure, UnreproducedFailures, Verification, verify};

/// Search for a failing schedule and save its trace
#[derive(clap::Args)]
pub(crate) struct Explore {
    #[command(flatten)]
    pub(crate) options: SearchOptions,
    #[command(flatten)]
    pub(crate) follow: Follow,
    #[command(flatten)]
    pub(crate) target: Target,
}

/// Search options that do not depend on the program.
#[derive(Clone, clap::Args)]
pub(crate) struct SearchOptions {
    /// Search strategy
    ///
    /// random: each enabled thread with equal chance at each point; pct[:D]: random priorities with D - 1 priority
    /// changes; pos: partial order sampling; race: brings threads together at conflicting accesses; novelty: returns to
    /// rare states and continues from there; chess[:K]: all schedules with at most K preemptions; portfolio: all of
    /// them in turn
    #[arg(long, default_value = "portfolio", value_name = "NAME")]
    strategy: String,
    /// Stop after this many runs
    #[arg(long, value_name = "N")]
    pub(crate) runs: Option<u64>,
    /// Stop after this much time, also in the middle of a run; 60s if neither this nor --runs is given
    ///
    /// The search ends earlier if every schedule was run or, without --keep-going, when a failure was found. `hunt`
    /// simplifies and explains it in the time that is left; `cargo test` gives this time to each test, 10s if neither
    /// is given
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) time: Option<Duration>,
    /// Seed of the search, from which the seeds of all runs derive
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// Continue after a failure and collect the distinct ones
    #[arg(long)]
    pub(crate) keep_going: bool,
    /// Number of parallel runs; the result does not depend on it
    #[arg(short, long, value_name = "N", default_value_t = default_jobs())]
    pub(crate) jobs: usize,
    /// Also write the result as JUnit XML, for CI
    #[arg(long, value_name = "FILE")]
    pub(crate) junit: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) checks: predicate::Checks,
    #[command(flatten)]
    pub(crate) run: RunArgs,
}

/// Runs of a program with one thread: its schedule is always the same, only its random numbers differ.
pub(crate) const RUNS_OF_ONE_THREAD: u64 = 10;

pub(crate) fn default_jobs() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// A search strategy with its parameter.
enum StrategyChoice {
    Random,
    Pos,
    /// Random priorities with this bug depth.
    Pct(u32),
    Race,
    Novelty,
    /// All schedules with at most this many preemptions.
    Chess(u32),
    Portfolio,
}

/// The number of possible races that are listed as text.
const MAX_POSSIBLE_RACES: usize = 8;

/// Result of a search.
#[derive(Default)]
pub(crate) struct SearchReport {
    strategy: String,
    pub(crate) runs: u64,
    pub(crate) schedules: HashSet<u64>,
    pub(crate) elapsed: Duration,
    pub(crate) failures: Failures,
    /// Runs that ended normally but with warnings, and the first of them.
    pub(crate) warned: u64,
    first_warned: Option<Trace>,
    /// The number of these runs that `--fail-on misuse` would count as failures.
    pub(crate) misused: u64,
    /// The number of runs that were stopped by a limit, and for each limit what was reached.
    pub(crate) undecided: u64,
    limits: BTreeMap<Limit, (u64, String)>,
    /// Failures that did not happen again in a replay.
    pub(crate) unreproduced: UnreproducedFailures,
    /// Runs with failures that `--same-if` excludes.
    pub(crate) excluded: u64,
    /// Traces of failures that were not replayed, because the search ended.
    pub(crate) unchecked: Vec<PathBuf>,
    /// The error that ended the search, after it had found something.
    error: Option<anyhow::Error>,
    pub(crate) interrupted: bool,
    /// The time that is used up, if that ended the search.
    time_is_up: Option<String>,
    completeness: Option<CompleteSearch>,
    incomplete_reason: Option<IncompleteReason>,
    /// True if a time-out was too long to expire while other threads could go on.
    withheld_long_timeouts: bool,
    races: Vec<race::RaceDescription>,
    /// Races or none: uninstrumented code may have ordered the accesses.
    possible_races: Vec<race::RaceDescription>,
    coverage: Coverage,
    /// The runs looked for conflicts.
    compares: bool,
    examined: Examined,
    cwd: String,
    modules: Vec<Module>,
    one_thread: bool,
    /// The program used random numbers.
    random_numbers: bool,
    from_checkpoint: bool,
    influences: HiddenInfluences,
    /// Some run did something that is not modelled.
    not_modelled: bool,
}

impl SearchReport {
    /// Returns everything as JSON.
    pub(crate) fn json(&self) -> Value {
        let failures: Vec<Value> = self.failures.0.iter().map(Failure::json).collect();
        let first = |field: &str| failures.first().map_or(Value::Null, |failure| failure[field].clone());
        json!({
            "found": !failures.is_empty(), "runs": self.runs, "elapsed_s": self.elapsed.as_secs_f64(),
            "strategy": self.strategy, "distinct_schedules": self.schedules.len(),
            "interrupted": self.interrupted, "trace": first("trace"), "seed": first("seed"),
            "policy": first("policy"), "outcome": first("outcome"), "stats": first("stats"),
            "failures": failures, "excluded": self.excluded, "unchecked": self.unchecked,
            "error": self.error.as_ref().map(|error| format!("{error:#}")),
            "runs_with_warnings": self.warned, "undecided": self.undecided,
            "unreproduced": self.unreproduced.0.iter().map(UnreproducedFailure::json).collect::<Vec<_>>(),
            "warnings": self.first_warned.as_ref().map(|trace| output::trace_json(trace).2),
            "races": self.races.iter().map(race::json).collect::<Vec<_>>(),
            "possible_races": self.possible_races.iter().map(race::json).collect::<Vec<_>>(),
            "complete": self.claim().json(), "examined": self.examined.json(),
            "coverage": coverage::json(&self.coverage, self.compares),
        })
    }

    /// Returns what may be claimed if there is no failure.
    pub(crate) fn claim(&self) -> Claim<'_> {
        Claim {
            examined: &self.examined,
            complete: self.completeness,
            undecided: self.decided() < self.runs || self.excluded > 0,
            one_thread: self.has_one_thread(),
            random_numbers: self.random_numbers,
            from_checkpoint: self.from_checkpoint,
            not_modelled: self.not_modelled,
            influences: self.influences,
            races: !self.races.is_empty() || !self.possible_races.is_empty(),
            cwd: &self.cwd,
        }
    }

    /// Returns whether the program has one thread, so that all its schedules are the same.
    fn has_one_thread(&self) -> bool {
        self.one_thread && self.decided() == self.runs
    }

    /// Describes how far the search got; empty if it got everywhere within its schedule points.
    pub(crate) fn coverage_text(&self) -> String {
        let ran_all = self.claim().complete().is_some_and(|complete| complete.preemptions.is_none());
        if ran_all || self.has_one_thread() || self.runs == 0 {
            return String::new();
        }
        coverage::text(&self.coverage, self.compares)
    }

    /// Says in a few words how far the search got, after a comma.
    pub(crate) fn reached_text(&self) -> String {
        let Coverage { pairs, both_orders, .. } = self.coverage;
        if self.claim().is_all() {
            ", all explored".into()
        } else if self.compares && pairs > 0 {
            format!(", {both_orders} of {pairs} pairs in both orders")
        } else {
            String::new()
        }
    }

    /// Returns whether further runs would only repeat the earlier ones.
    fn repeats(&self) -> bool {
        let enough = if self.random_numbers { RUNS_OF_ONE_THREAD } else { 1 };
        self.has_one_thread() && self.runs >= enough
    }

    /// Describes what was examined, and what was not.
    pub(crate) fn examined_text(&self) -> String {
        self.examined.text(&self.cwd)
    }

    /// Returns the number of runs that decided something: they ended by themselves, normally or by a failure that
    /// reproduces.
    fn decided(&self) -> u64 {
        self.runs.saturating_sub(self.undecided + self.unreproduced.runs())
    }

    /// Returns what the search says about the program, once it has ended.
    pub(crate) fn verdict(&self) -> Verdict {
        match (self.failures.0.is_empty(), self.interrupted) {
            (false, _) if self.failures.0.iter().any(|failure| failure.saved.path().is_none()) => {
                Verdict::NotSaved
            }
            (false, _) => Verdict::Failure,
            (true, true) => Verdict::Interrupted,
            (true, false) if self.decided() == 0 => Verdict::Undecided,
            (true, false) => Verdict::Fine,
        }
    }

    /// Describes the runs that were stopped, and names the options that raise the limits.
    pub(crate) fn undecided_text(&self) -> String {
        let line = |(runs, reached): &(u64, String)| {
            let were = if *runs == 1 { "run was" } else { "runs were" };
            format!("{runs} {were} undecided: {reached}\n")
        };
        self.limits.values().map(line).collect()
    }

    /// Describes the failures that did not happen again.
    fn unreproduced_text(&self) -> String {
        self.unreproduced.0.iter().map(UnreproducedFailure::text).collect()
    }

    /// Says how many runs failed in a way that `--same-if` excludes.
    fn excluded_text(&self) -> String {
        match self.excluded {
            0 => String::new(),
            1 => "1 run failed in another way (--same-if excludes it)\n".into(),
            n => format!("{n} runs failed in other ways (--same-if excludes them)\n"),
        }
    }

    /// Names the traces of failures that were not replayed.
    fn unchecked_text(&self) -> String {
        let line = |path: &PathBuf| {
            format!("found    {} (not replayed, because the search ended)\n", output::quoted(path))
        };
        self.unchecked.iter().map(line).collect()
    }

    /// Returns how warnings become failures; empty if they cannot.
    fn misuse_hint(&self) -> String {
        match self.misused {
            0 => String::new(),
            all if all == self.warned => " (--fail-on misuse makes them failures)".into(),
            some => format!(" (--fail-on misuse makes {some} of these failures)"),
        }
    }

    /// Mentions time-outs that the search did not try.
    fn timeouts_text(&self) -> &'static str {
        if self.withheld_long_timeouts {
            "time-outs of a second and more were not tried early (--timeouts eager does that)\n"
        } else {
            ""
        }
    }

    /// Describes the races that were seen in passing.
    pub(crate) fn races_text(&self) -> String {
        let s = |races: &[race::RaceDescription]| if races.len() == 1 { "" } else { "s" };
        let lines = |races: &[race::RaceDescription]| races.iter().map(race::line).collect::<String>();
        let (races, possible) = (&self.races, &self.possible_races);
        let mut text = String::new();
        if !races.is_empty() {
            text += &format!(
                "{} data race{} seen (--fail-on race makes them failures):\n{}",
                races.len(),
                s(races),
                lines(races)
            );
        }
        if !possible.is_empty() {
            let (shown, rest) = possible.split_at(possible.len().min(MAX_POSSIBLE_RACES));
            text += &format!(
                "{} possible data race{}: the code was called by a library that unsnarl did not compile, which may order \
                 the accesses:\n{}",
                possible.len(),
                s(possible),
                lines(shown)
            );
            if !rest.is_empty() {
                text += &format!("         and {} more (--json lists them)\n", rest.len());
            }
        }
        text
    }
}

impl SearchReport {
    /// Adds the next run; a failure counts only if it happens again.
    fn add(&mut self, run: RunResult, plan: &Plan, settings: &Settings, found: &FoundTraces<'_>) {
        self.runs += 1;
        self.schedules.insert(run.schedule);
        self.one_thread = run.threads == 1 && (self.one_thread || self.runs == 1);
        self.random_numbers |= run.first_random.is_some();
        self.compares |= plan.conflicts;
        self.from_checkpoint |= plan.from_checkpoint;
        self.influences |= run.influences;
        self.withheld_long_timeouts |= run.withheld_timeouts.long;
        if run.modules.len() > self.modules.len() {
            self.modules = run.modules;
        }
        if let Some((limit, reached)) = run.undecided {
            self.undecided += 1;
            self.limits.entry(limit).or_insert((0, reached)).0 += 1;
        }
        if let Some(trace) = run.failure {
            self.add_failure(trace, settings, found);
        }
        self.excluded += u64::from(run.excluded);
        self.warned += u64::from(run.warned.is_some());
        let misused = |trace: &Trace| trace.warnings.iter().any(|w| w.misuse.is_program_error());
        self.misused += u64::from(run.warned.as_ref().is_some_and(misused));
        let not_modelled = |trace: &Trace| trace.warnings.iter().any(|w| w.misuse == Misuse::NotModelled);
        self.not_modelled |= run.warned.as_ref().is_some_and(not_modelled);
        self.first_warned = self.first_warned.take().or(run.warned);
    }

    fn add_failure(&mut self, trace: Trace, settings: &Settings, found: &FoundTraces<'_>) {
        let signature = trace.signature();
        if self.failures.count(&signature) {
            return;
        }
        let run = self.runs;
        if self.unreproduced.is_hopeless(&signature) {
            found.discard(&signature);
            return self.unreproduced.add(trace, run, String::new());
        }
        match verify(&trace, Settings { serve: false, ..settings.clone() }) {
            Verification::Holds(check) => {
                let saved = found.confirm(&trace);
                self.failures.add(trace, run, check, saved);
            }
            Verification::NotReproduced(reason) => {
                found.discard(&signature);
                self.unreproduced.add(trace, run, reason);
            }
        }
    }

    /// Notes why the search ends before it is complete.
    fn stop(&mut self, budget: &Budget, settings: &Settings) {
        let interrupt = settings.interrupt.as_ref();
        self.interrupted = interrupt.is_some_and(|interrupt| interrupt.load(Ordering::Relaxed));
        self.time_is_up = (!self.interrupted).then(|| budget.time_text());
    }
}

/// Returns `None` for what was interrupted, by the user or by the end of the search's time.
fn unless_interrupted<T>(result: Result<T>) -> Result<Option<T>> {
    match result {
        Err(error) if matches!(error.downcast_ref(), Some(Error::Interrupted)) => Ok(None),
        other => other.map(Some),
    }
}

/// Result of one run.
struct RunResult {
    failure: Option<Trace>,
    /// The run failed in a way that the user does not look for.
    excluded: bool,
    /// The trace of a run that ended normally but with warnings.
    warned: Option<Trace>,
    /// The limit that stopped the run, and what was reached.
    undecided: Option<(Limit, String)>,
    schedule: u64,
    points: u64,
    single_thread_points: u64,
    first_random: Option<u64>,
    threads: usize,
    conflicts: Vec<Conflict>,
    modules: Vec<Module>,
    steps: Option<RunSteps>,
    withheld_timeouts: WithheldTimeouts,
    /// The run's schedule class, if it was determined.
    class: Option<u64>,
    /// Influences on the run that limit a claim.
    influences: HiddenInfluences,
}

impl RunResult {
    fn of(run: &unsnarl_exec::Run<'_>, plan: &Plan, sampling: ClassSampling) -> Self {
        let (conflicts, modules) = if plan.conflicts { run.conflicts() } else { (Vec::new(), run.modules()) };
        let (schedule, points, single_thread_points) =
            (run.schedule_hash(), run.points(), run.single_thread_points());
        Self {
            failure: None,
            excluded: false,
            warned: None,
            undecided: None,
            schedule,
            points,
            single_thread_points,
            first_random: run.first_random(),
            threads: run.threads(),
            conflicts,
            modules,
            steps: None,
            withheld_timeouts: run.withheld_timeouts(),
            // Only systematic searches, and those of programs with one thread, make claims.
            influences: if plan.choices || run.threads() == 1 {
                run.hidden_influences()
            } else {
                HiddenInfluences::default()
            },
            class: sampling.includes(plan).then(|| schedule_class(run.located_events())),
        }
    }

    fn summary(&self) -> RunSummary<'_> {
        let Self {
            points,
            single_thread_points,
            first_random,
            conflicts,
            modules,
            steps,
            withheld_timeouts,
            class,
            ..
        } = self;
        RunSummary {
            points: *points,
            single_thread_points: *single_thread_points,
            first_random: *first_random,
            conflicts,
            modules,
            steps: steps.as_ref(),
            withheld_timeouts: *withheld_timeouts != WithheldTimeouts::default(),
            class: *class,
        }
    }
}

impl Explore {
    pub(crate) fn run(self) -> Result<Verdict> {
        self.options.check()?;
        let (program, _launcher) = target::program_to_control(&self.target, &self.follow)?;
        let interrupt = interrupt()?;
        let budget = self.options.budget();
        let bar = progress(&budget, self.options.run.json);
        let destination = self.destination(&program);
        let mut search = self.options.explore(program, budget, (&interrupt, &bar), &destination)?;
        self.report(&mut search, &destination)
    }
}

/// Returns a flag that Ctrl-C sets.
pub(crate) fn interrupt() -> Result<Arc<AtomicBool>> {
    let interrupt = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&interrupt);
    ctrlc::set_handler(move || flag.store(true, Ordering::Relaxed))?;
    Ok(interrupt)
}

impl SearchOptions {
    /// Checks before the first run that the options are valid, and that everything can be written that the search may
    /// find.
    pub(crate) fn check(&self) -> Result<()> {
        self.strategy_choice()?;
        traces::check(self.run.output.as_deref())?;
        self.junit.as_deref().map_or(Ok(()), traces::check_file)
    }

    /// Returns the budget of a search that begins now.
    pub(crate) fn budget(&self) -> Budget {
        Budget::begin(self.runs, self.time)
    }

    /// Searches for a failing schedule of this program.
    pub(crate) fn explore(
        &self,
        program: Program,
        budget: Budget,
        (interrupt, progress): (&Arc<AtomicBool>, &ProgressBar),
        destination: &Destination,
    ) -> Result<SearchReport> {
        traces::prepare();
        let settings = Settings { until: budget.until, ..self.settings(interrupt) };
        let Some(strategy) = unless_interrupted(self.strategy(&program, &settings))? else {
            let mut search = SearchReport { strategy: self.strategy.clone(), ..SearchReport::default() };
            search.stop(&budget, &settings);
            return Ok(search);
        };
        let mut pool = self.pool(&program, &settings)?;
        let found = FoundTraces::new(Some(destination));
        let searched = self.search(&program, strategy, &mut pool, (budget, &settings), &found, progress);
        let (mut search, races) = searched.inspect_err(|_| {
            for path in found.unchecked() {
                eprintln!("found before the error, not replayed: {}", output::quoted(&path));
            }
        })?;
        if search.interrupted || search.time_is_up.is_some() || search.error.is_some() {
            search.unchecked = found.unchecked();
        }
        found.remove_unchecked();
        search.races = races.describe(ConflictKind::Race, &program.cwd);
        search.possible_races = races.describe(ConflictKind::Possible, &program.cwd);
        Ok(search)
    }

    fn settings(&self, interrupt: &Arc<AtomicBool>) -> Settings {
        // Each run keeps two processors busy, one after the other.
        let busy_waits = self.jobs * 2 <= default_jobs();
        let settings = self.run.settings();
        let files = self.checks.file_changes(settings.files);
        Settings { interrupt: Some(interrupt.clone()), serve: true, busy_waits, files, ..settings }
    }

    /// Creates one executor per job.
    fn pool(&self, program: &Program, settings: &Settings) -> Result<Pool> {
        let executor = |_| Executor::new(program.clone(), settings.clone());
        // A check inspects what a run left behind, so runs must not overlap.
        let jobs = if self.checks.inspect_environment() { 1 } else { self.jobs.clamp(1, 256) };
        Ok(Pool { executors: (0..jobs).map(executor).collect::<Result<_, _>>()? })
    }

    /// Makes one search after the other: each strategy gets the given number of seeds, until its runs are used up. Each
    /// search is reported.
    pub(crate) fn explore_repeatedly(
        &self,
        program: &Program,
        strategies: &[(String, u64, u64)],
        interrupt: &Arc<AtomicBool>,
        mut report: impl FnMut(&str, u64, &SearchReport, usize),
    ) -> Result<()> {
        let settings = self.settings(interrupt);
        let mut pool = self.pool(program, &settings)?;
        for (name, seeds, budget) in strategies {
            let mut spent = 0;
            // The seeds are far apart, because a search uses consecutive seeds.
            for seed in (1..=*seeds).map(|nth| nth * 1_000_003) {
                if spent >= *budget {
                    break;
                }
                let options = Self { strategy: name.clone(), seed, ..self.clone() };
                let strategy = options.strategy(program, &settings)?;
                let budget = Budget { runs: Some(self.runs.unwrap_or(1000)), time: None, until: None };
                let (search, races) = options.search(
                    program,
                    strategy,
                    &mut pool,
                    (budget, &settings),
                    &FoundTraces::new(None),
                    &ProgressBar::hidden(),
                )?;
                if search.interrupted {
                    return Err(Error::Interrupted.into());
                }
                spent += search.runs;
                report(name, seed, &search, races.count());
            }
        }
        Ok(())
    }

    /// Returns the options for a program with one thread: fewer runs suffice, and its accesses cannot race.
    pub(crate) fn for_one_thread(&self, runs: u64) -> Self {
        let runs = Some(self.runs.map_or(runs, |most| most.min(runs)));
        Self { runs, run: self.run.clone().with_points(PointSet::Sync), ..self.clone() }
    }

    fn strategy(&self, program: &Program, settings: &Settings) -> Result<unsnarl_search::Search> {
        let points = self.run.points(PointSet::Races);
        let plan = self.run.plan(&points, program, Policy::Random, self.seed)?;
        // Conflict detection costs little if accesses are observed anyway.
        let plan = Plan { conflicts: plan.conflicts || points != PointSet::Sync, ..plan };
        let plan = checkpoint::start_at_checkpoint(plan, program, settings)?;
        let strategy: Box<dyn Strategy> = match self.strategy_choice()? {
            StrategyChoice::Random => Box::new(SeedSweep::new(plan.clone(), Policy::Random)),
            StrategyChoice::Pos => Box::new(SeedSweep::new(plan.clone(), Policy::Pos)),
            StrategyChoice::Pct(depth) => Box::new(PctStrategy::new(plan.clone(), depth)),
            StrategyChoice::Race => Box::new(RaceDirectedStrategy::new(plan.clone())),
            StrategyChoice::Novelty => Box::new(Novelty::new(plan.clone())),
            StrategyChoice::Chess(bound) => Box::new(Chess::new(plan.clone(), bound)),
            StrategyChoice::Portfolio => Box::new(Portfolio::new(&plan)),
        };
        let search = unsnarl_search::Search::new(strategy, plan.places);
        let pinned = self.run.pins_random_numbers();
        Ok(if pinned { search.with_pinned_random_numbers() } else { search })
    }

    /// Parses `--strategy`.
    fn strategy_choice(&self) -> Result<StrategyChoice, UsageError> {
        let (name, figure) = self.strategy.split_once(':').unwrap_or((&self.strategy, ""));
        Ok(match (name, figure) {
            ("random", "") => StrategyChoice::Random,
            ("pos", "") => StrategyChoice::Pos,
            ("pct", "") => StrategyChoice::Pct(3),
            ("pct", depth) => match depth.parse() {
                Ok(depth) if depth > 0 => StrategyChoice::Pct(depth),
                _ => return Err(UsageError(format!("pct:D needs a depth of at least 1, not `{depth}`"))),
            },
            ("race", "") => StrategyChoice::Race,
            ("novelty", "") => StrategyChoice::Novelty,
            ("chess", "") => StrategyChoice::Chess(2),
            ("chess", bound) => match bound.parse() {
                Ok(bound) => StrategyChoice::Chess(bound),
                Err(_) => {
                    return Err(UsageError(format!("chess:K needs a number of preemptions, not `{bound}`")));
                }
            },
            ("portfolio", "") => StrategyChoice::Portfolio,
            _ => {
                let there = "random, pct[:D], pos, race, novelty, chess[:K], portfolio";
                return Err(UsageError(format!("no strategy `{}`: there are {there}", self.strategy)));
            }
        })
    }

    fn search(
        &self,
        program: &Program,
        mut strategy: unsnarl_search::Search,
        pool: &mut Pool,
        (budget, settings): (Budget, &Settings),
        found: &FoundTraces<'_>,
        progress: &ProgressBar,
    ) -> Result<(SearchReport, race::Races)> {
        let begin = Instant::now();
        let mut search = SearchReport { cwd: program.cwd.clone(), ..SearchReport::default() };
        let mut races = race::Races::default();
        let mut start_snapshot = start_snapshot::StartSnapshot::default();
        // Strategies learn between batches, whose sizes do not depend on the number of jobs.
        let mut batch = 1;
        let most = budget.runs.unwrap_or(u64::MAX);
        let mut ended = false;
        while !ended && search.runs < most {
            let plan_count = batch.min(most - search.runs) as usize;
            // Runs that are made together share the random numbers that they use before there are threads.
            let shares = strategy.known().randomness() == Randomness::BeforeThreads;
            batch = (batch * 2).min(if shares { 16 } else { 64 });
            let plans: Vec<Plan> = std::iter::from_fn(|| strategy.plan()).take(plan_count).collect();
            ended = plans.is_empty();
            if !ended
                && (budget.is_over() || unless_interrupted(start_snapshot.keep(pool, &plans))?.is_none())
            {
                search.stop(&budget, settings);
                break;
            }
            let sampling = strategy.sampling();
            let job = |executor: &mut Executor, plan: &Plan| {
                let attempt = self.attempt(executor, plan, sampling);
                if let Ok(RunResult { failure: Some(trace), .. }) = &attempt {
                    found.keep(trace);
                }
                progress.inc(1);
                unless_interrupted(attempt)
            };
            let ends = |run: &Option<RunResult>| {
                run.as_ref().is_none_or(|run| run.failure.is_some() && !self.keep_going)
            };
            let mut rest = plans.as_slice();
            while !ended && !rest.is_empty() {
                let runs = match pool.run(rest, job, ends) {
                    Err(error) if !search.failures.0.is_empty() => {
                        search.error = Some(error);
                        ended = true;
                        break;
                    }
                    runs => runs?,
                };
                let (these, others) = rest.split_at(runs.len());
                rest = others;
                for (run, plan) in runs.into_iter().zip(these) {
                    let Some(run) = run else {
                        search.stop(&budget, settings);
                        ended = true;
                        break;
                    };
                    strategy.learn(plan, &run.summary());
                    races.add(&run.conflicts, &run.modules);
                    let known = search.failures.0.len();
                    search.add(run, plan, settings, found);
                    if let Some(failure) =
                        search.failures.0.get(known).filter(|_| self.keep_going && !self.run.json)
                    {
                        progress.suspend(|| eprint!("{}", failure.notice()));
                    }
                }
                ended |= (!self.keep_going && !search.failures.0.is_empty()) || search.repeats();
            }
            let (distinct, failures) = (search.schedules.len(), search.failures.0.len());
            let raced = races.count();
            // Other strategies have nothing left to find. What else limits a claim does not go away.
            let ran_all = |complete: CompleteSearch| complete.preemptions.is_none();
            let complete = strategy.completeness().filter(|&complete| raced == 0 && ran_all(complete));
            if !ended && complete.is_some() && search.completeness != complete {
                search.completeness = complete;
                search.examined = self.examined(&search);
                ended = search.claim().is_all();
            }
            progress
                .set_message(format!("{distinct} distinct schedules, {raced} races, {failures} failures"));
        }
        progress.finish_and_clear();
        search.elapsed = begin.elapsed();
        search.strategy = strategy.name();
        search.completeness = strategy.completeness();
        search.incomplete_reason = strategy.incomplete_reason();
        search.coverage = strategy.coverage();
        search.examined = self.examined(&search);
        Ok((search, races))
    }

    /// Returns what the runs of a search examine.
    fn examined(&self, search: &SearchReport) -> Examined {
        let points = self.run.points(PointSet::default());
        Examined::new(&points, self.run.one_in(), &search.modules, &search.cwd)
    }

    /// Makes one run.
    fn attempt(&self, executor: &mut Executor, plan: &Plan, sampling: ClassSampling) -> Result<RunResult> {
        let run = executor.run(plan)?;
        let mut attempt = RunResult::of(&run, plan, sampling);
        attempt.undecided = run.undecided();
        let decided = attempt.undecided.is_none();
        // A run that was stopped leaves nothing behind that a check could judge.
        let failure_message = if decided { self.checks.failure_message(&run.output)? } else { None };
        let raced = attempt.conflicts.iter().any(|conflict| conflict.kind == ConflictKind::Race);
        if failure_message.is_none()
            && (run.is_clean() || !decided && !self.run.fail_on.contains(&FailOn::Misuse))
            && !(raced && self.run.fail_on.contains(&FailOn::Race))
            && !plan.choices
        {
            return Ok(attempt);
        }
        let choices = run.choices();
        let diverged = run.divergence().is_some();
        let mut trace = run.trace();
        if plan.choices {
            let ended = !diverged && trace.outcome.limit().is_none();
            attempt.steps = Some(RunSteps::of(&trace, choices, ended));
        }
        predicate::judge(&mut trace, &self.run.fail_on, failure_message);
        self.checks.exclude(&mut trace);
        attempt.excluded = trace.outcome.excluded;
        let failed = trace.outcome.is_failure() && !attempt.excluded;
        let warned = !failed && !attempt.excluded && decided && !trace.warnings.is_empty();
        // A misuse or a race before the limit is a failure.
        attempt.undecided.take_if(|_| failed || attempt.excluded);
        (attempt.failure, attempt.warned) =
            if failed { (Some(trace), None) } else { (None, warned.then_some(trace)) };
        Ok(attempt)
    }
}

impl Explore {
    /// Returns where the traces of a search of this program go.
    fn destination(&self, program: &Program) -> Destination {
        let requested = self.options.run.output.clone();
        let name = traces::name_of_program(&program.path);
        Destination { beside: requested.clone(), requested, before: 0, name }
    }

    pub(crate) fn report(&self, search: &mut SearchReport, destination: &Destination) -> Result<Verdict> {
        for (nth, failure) in search.failures.0.iter_mut().enumerate() {
            judge::add_stacks(&mut failure.trace);
            judge::add_accesses(&mut failure.trace);
            found::finish(destination, nth, &failure.trace, &mut failure.saved);
        }
        // `latest` should name the first failure.
        let mut paths = search.failures.0.iter().filter_map(|failure| failure.saved.path());
        if let (Some(first), Some(_)) = (paths.next(), paths.next()) {
            traces::remember(first);
        }
        if let Some(path) = &self.options.junit {
            let name =
                self.target.program.iter().map(|arg| arg.to_string_lossy()).collect::<Vec<_>>().join(" ");
            report::save(path, &junit(&name, &[search.case("unsnarl", &name)]))?;
        }
        if self.options.run.json {
            output::json(&search.json());
        } else {
            self.print_text(search);
        }
        if let Some(error) = &search.error {
            eprintln!("error: the search ended early: {error:#}");
        }
        Ok(search.verdict())
    }

    fn print_text(&self, search: &SearchReport) {
        let seconds = search.elapsed.as_secs_f64();
        let (runs, distinct) = (search.runs, search.schedules.len());
        let command =
            self.target.program.iter().map(|arg| output::quoted(arg.as_ref())).collect::<Vec<_>>().join(" ");
        let follow = match &self.follow.follow {
            None => String::new(),
            Some(None) => " --follow".into(),
            Some(Some(name)) => format!(" --follow={}", output::quoted(name.as_ref())),
        };
        for (nth, failure) in search.failures.0.iter().enumerate() {
            let plan = &failure.trace.plan;
            let strategy_name = strategy_name(plan);
            let s = if distinct == 1 { "" } else { "s" };
            let run = failure.run;
            let found = if self.options.keep_going {
                format!("in {} of {runs} runs, first in run {run}", failure.times)
            } else {
                format!("in run {run}")
            };
            output::print(&format!(
                "{}{}\n\
                 found    {found} ({strategy_name}), {distinct} distinct schedule{s}, {seconds:.2} s\n\
                 {}\
                 {}\
                 {}",
                if nth > 0 { "\n" } else { "" },
                output::outcome(&failure.trace),
                other_races(&failure.trace),
                failure.commands(),
                failure.saved.path().map_or_else(String::new, |path| {
                    format!("rerun    unsnarl record --like {}{follow} -- {command}\n", output::quoted(path))
                }),
            ));
        }
        if search.failures.0.is_empty() {
            let suffix = match &search.time_is_up {
                _ if search.interrupted => ", interrupted".to_owned(),
                Some(time) => format!(": {time}"),
                None => String::new(),
            };
            let [of_runs, s] = [runs, distinct as u64].map(|count| if count == 1 { "" } else { "s" });
            let such = if search.excluded > 0 { " that --same-if accepts" } else { "" };
            output::print(&format!(
                "no failure{such} in {runs} run{of_runs} ({distinct} distinct schedule{s}, {seconds:.2} s){suffix}\n{}{}{}{}{}{}",
                search.undecided_text(),
                search.claim().text(),
                search.coverage_text(),
                search.races_text(),
                search.timeouts_text(),
                if search.claim().is_all() || search.has_one_thread() {
                    String::new()
                } else {
                    self.hint(search)
                },
            ));
            if let Some(trace) = &search.first_warned {
                output::print(&format!(
                    "\nwarnings in {} of these runs{}; in the first:\n{}",
                    search.warned,
                    search.misuse_hint(),
                    output::outcome(trace)
                ));
            }
        }
        if !search.failures.0.is_empty() {
            output::print(&search.undecided_text());
        }
        output::print(&search.unreproduced_text());
        output::print(&search.excluded_text());
        output::print(&search.unchecked_text());
    }

    /// Returns what to try if nothing was found.
    fn hint(&self, search: &SearchReport) -> String {
        let mut hint = match search.incomplete_reason {
            Some(IncompleteReason::Threads(threads)) => {
                return format!(
                    "incomplete: this strategy supports at most {} threads and the program has {threads}: the search stopped\n\
                     next     another --strategy, such as portfolio\n",
                    EnabledThreads::THREADS
                );
            }
            Some(IncompleteReason::CutOff) => "incomplete: some runs were stopped by a limit\n".into(),
            None => String::new(),
        };
        hint += if search.completeness.is_some_and(|complete| complete.preemptions.is_none()) {
            ""
        } else if search.schedules.len() == 1 && search.runs > 1 {
            "         all runs had the same schedule: with these points, threads have no choice\n"
        } else {
            "next     more --time or --runs, or another --seed\n"
        };
        hint
    }
}

impl SearchReport {
    /// Returns the result as a JUnit test case.
    pub(crate) fn case(&self, group: &str, name: &str) -> Case {
        let runs = self.runs;
        let result = match self.failures.0.as_slice() {
            [] if self.interrupted => CaseResult::Error(format!("interrupted after {runs} runs")),
            [] if self.decided() == 0 => CaseResult::Error(format!(
                "no run was decided\n{}{}",
                self.undecided_text(),
                self.unreproduced_text()
            )),
            [] => CaseResult::Passed(format!(
                "no failure in {runs} runs, {} distinct schedules\n{}{}{}",
                self.schedules.len(),
                self.undecided_text(),
                self.claim().text(),
                self.coverage_text(),
            )),
            failures => {
                CaseResult::Failed(failures.iter().map(|failure| report::failure(&failure.trace)).collect())
            }
        };
        Case { group: group.into(), name: name.into(), seconds: self.elapsed.as_secs_f64(), result }
    }
}

impl UnreproducedFailure {
    fn json(&self) -> Value {
        let (outcome, stats, _) = output::trace_json(&self.trace);
        json!({ "outcome": outcome, "stats": stats, "times": self.times, "run": self.run, "reason": self.reason })
    }
}

impl Failure {
    fn json(&self) -> Value {
        let (outcome, stats, _) = output::trace_json(&self.trace);
        let plan = &self.trace.plan;
        let reason = match &self.saved {
            SavedTrace::Not(reason) => Some(reason),
            SavedTrace::At(_) | SavedTrace::Draft(_) => None,
        };
        json!({ "trace": self.saved.path(), "not_saved": reason, "run": self.run, "outcome": outcome, "stats": stats, "times": self.times,
            "seed": plan.seed, "policy": plan.tail.name() })
    }

    /// Says in one line that the failure was found, and where its trace is.
    fn notice(&self) -> String {
        let outcome = output::outcome(&self.trace);
        let title = outcome.lines().next().unwrap_or_default();
        match self.saved.path() {
            Some(path) => format!("run {}: {title}; saved as {}\n", self.run, output::quoted(path)),
            None => format!("run {}: {title}\n{}", self.run, traces::how_to_find_again(&self.trace)),
        }
    }

    /// Returns the path of the trace and the next commands, one per line; if there is no trace, how to find the failure
    /// again.
    pub(crate) fn commands(&self) -> String {
        let Some(path) = self.saved.path() else {
            let reason = match &self.saved {
                SavedTrace::Not(reason) => reason.as_str(),
                SavedTrace::At(_) | SavedTrace::Draft(_) => "",
            };
            return format!("NOT SAVED: {reason}\n{}", traces::how_to_find_again(&self.trace));
        };
        let (path, figures) = (output::quoted(path), output::figures(&self.trace));
        format!(
            "trace    {path} ({figures})\n\
             replay   unsnarl replay {path}   ({})\n\
             simplify unsnarl simplify {path}\n\
             show     unsnarl show {path}\n",
            self.check
        )
    }
}

/// Describes the races of a run, one per line.
pub(crate) fn races_of(trace: &Trace) -> String {
    let mut races = race::Races::default();
    races.add(&trace.races, &trace.modules);
    races.describe(ConflictKind::Race, &trace.program.cwd).iter().map(race::line).collect()
}

/// Describes the races of a run whose failure is another one.
fn other_races(trace: &Trace) -> String {
    match trace.outcome.kind {
        OutcomeKind::Race => String::new(),
        _ => match races_of(trace) {
            races if races.is_empty() => races,
            races => format!("races    in this run:\n{races}"),
        },
    }
}

/// Returns the name of the strategy that made a plan, as `--strategy` takes it, and the seed.
pub(crate) fn strategy_name(plan: &Plan) -> String {
    // The first segment may exist only because there was no choice yet.
    match (plan.prefix.segments.len(), plan.tail) {
        (_, Policy::Fair) => "chess".to_owned(),
        (0 | 1, tail) => {
            let name = tail.name();
            let name = name.split(':').next().unwrap_or_default();
            format!("{name}, seed {}", plan.seed)
        }
        _ => format!("novelty, seed {}", plan.seed),
    }
}

/// Creates the progress line of a search.
pub(crate) fn progress(budget: &Budget, quiet: bool) -> ProgressBar {
    if quiet {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::with_draw_target(budget.runs, ProgressDrawTarget::stderr_with_hz(10));
    let template = match budget.runs {
        Some(_) => "{prefix}{bar:20} {pos}/{len} runs, {rate}, {eta} left, {wide_msg}".to_owned(),
        None => {
            let time = budget.time.map_or_else(String::new, |time| format!(" of {time:?}"));
            format!("{{prefix}}{{pos}} runs, {{rate}}, {{elapsed}}{time}, {{wide_msg}}")
        }
    };
    let style = ProgressStyle::with_template(&template).unwrap_or_else(|_| ProgressStyle::default_bar());
    bar.with_style(style.with_key("rate", |state: &ProgressState, out: &mut dyn std::fmt::Write| {
        let _ = write!(out, "{:.0} runs/s", state.per_sec());
    }))
}
