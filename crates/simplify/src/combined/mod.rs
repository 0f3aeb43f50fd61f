//! Static simplification first, then dynamic: the algorithm that users get.
//!
//! The two papers combined achieve more with fewer runs than either alone:
//!
//! 1. The order of events is improved without running anything, and events that the failure does not depend
//!    on are left out ([`crate::static_order`]). One run confirms the result; if it does not, the events do
//!    not show everything that matters, and stricter rules are tried.
//! 2. Tinertia's operations are applied to the rest. Each yields a *candidate*: an order of the trace's
//!    events that breaks some dependence, since the orders that break none are already covered. A candidate
//!    that is infeasible as it stands is skipped, and so is one that is equivalent to an executed one
//!    (`static_order/fingerprint.rs`). Those that break the fewest dependences come first.
//! 3. An executed trace is improved statically as well before it is judged. So a candidate need not be good
//!    itself to lead to an improvement.
//! 4. When no candidate has fewer context switches, those with fewer preemptions are tried.
//! 5. With effort 1 or more, Tinertia also runs by itself from the start, which sometimes gets further; so
//!    the result is never worse than Tinertia's.
//! 6. With more effort, all cheaper schedules are searched ([`crate::prove`]).
//!
//! Every trace that is kept was executed, and each is better than the one before: fewer context switches,
//! then fewer preemptions, then fewer events. Candidates are run in batches, in an order that does not depend
//! on how many run at once; so the result does not either.

mod candidates;
mod run_cache;

use crate::{
    Cost, Runner,
    dynamic::{
        self, Improvement, SimplificationResult, SimplificationStats, Transformation,
        segment_order::relaxed_plan,
    },
    prove::{self, Proof, ProofVerdict},
    static_order::{self, Rules, causal_past::causal_past, fingerprint::fingerprints},
};
use candidates::{Candidate, Change};
use run_cache::RunCache;
use std::{
    collections::HashSet,
    hash::{DefaultHasher, Hash, Hasher},
};
use unsnarl_model::{Plan, Signature, Trace};

/// The number of next candidates announced to the runner in advance.
const AHEAD: usize = 16;

/// The number of runs of the systematic search for each step of effort.
pub const SEARCH: u64 = 500;

/// Options of the simplification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SimplifyOptions {
    /// The number of candidates handed to the runner at once: as many as it runs in parallel. Additional ones
    /// are run without use.
    pub batch: usize,
    /// Only the last `suffix` segments are changed by running (Tinertia, section 5.4), which bounds the runs
    /// for long traces. `None` for as many as can be examined in reasonable time: all of them unless the
    /// trace is very long.
    pub suffix: Option<usize>,
    /// The maximum number of runs.
    pub executions: u64,
    /// How hard to search. 0: only changes that are likely to work, each once. 1 and more: also Tinertia
    /// alone from the start, so that the result is certainly not worse than Tinertia's. 2 and more: also all
    /// cheaper schedules, with [`SEARCH`] runs for each further step of effort.
    pub effort: u32,
    /// Continue until the result is proved minimal, as far as the runs allow.
    pub prove: bool,
}

impl Default for SimplifyOptions {
    fn default() -> Self {
        Self { batch: 1, suffix: None, executions: 10_000, effort: 0, prove: false }
    }
}

/// Simplifies a failing trace. `watch` is called for each improvement.
pub fn simplify<R: Runner>(
    trace: &Trace,
    runner: &mut R,
    options: &SimplifyOptions,
    watch: &mut dyn FnMut(Improvement<'_>),
) -> SimplificationResult<R::Error> {
    let goal = Goal { signature: trace.signature(), best: trace.clone() };
    let mut work = Simplifier {
        goal,
        runner: RunCache::new(runner),
        options,
        watch,
        stats: SimplificationStats::default(),
        known: HashSet::new(),
        failed: HashSet::new(),
        proof: None,
        switches_ruled_out: None,
        events_are_complete: true,
    };
    let stopped = work.run().err();
    work.count();
    let Simplifier { goal, stats, proof, switches_ruled_out, events_are_complete, .. } = work;
    SimplificationResult {
        trace: goal.best,
        stats,
        proof,
        switches_ruled_out,
        has_hidden_dependence: !events_are_complete,
        stopped,
    }
}

/// Simplifies several traces of the same failure and returns the best result.
pub fn simplify_best<R: Runner>(
    traces: &[Trace],
    runner: &mut R,
    options: &SimplifyOptions,
    watch: &mut dyn FnMut(Improvement<'_>),
) -> Option<SimplificationResult<R::Error>> {
    let mut best: Option<SimplificationResult<R::Error>> = None;
    for trace in traces {
        let mut found = simplify(trace, runner, options, watch);
        if let Some(earlier) = best {
            found.stats.add_runs(&earlier.stats);
            if rank(&earlier.trace) <= rank(&found.trace) {
                found.stats.take_contributions(&earlier.stats);
                (found.trace, found.proof) = (earlier.trace, earlier.proof);
                found.switches_ruled_out = earlier.switches_ruled_out;
                found.has_hidden_dependence = earlier.has_hidden_dependence;
            }
        }
        let stopped = found.stopped.is_some();
        best = Some(found);
        if stopped {
            break;
        }
    }
    best
}

/// Returns the value to compare: the lower the better.
fn rank(trace: &Trace) -> (Cost, usize) {
    (Cost::of(&trace.events), trace.events.len())
}

/// The goal of the simplification.
struct Goal {
    signature: Signature,
    best: Trace,
}

impl Goal {
    /// Returns whether the trace has the same failure and is better than the best.
    fn is_met_by(&self, actual: &Trace) -> bool {
        actual.signature() == self.signature && rank(actual) < rank(&self.best)
    }

    /// Returns whether the trace meets the goal, or can be made to without running.
    fn is_near(&self, actual: &Trace) -> bool {
        actual.signature() == self.signature
            && (rank(actual) < rank(&self.best)
                || static_orders(actual).any(|order| rank(&order) < rank(&self.best)))
    }
}

/// Returns orders of the trace that keep its dependences: first without events that the failure does not
/// depend on, and first by the usual rules.
fn static_orders(trace: &Trace) -> impl Iterator<Item = Trace> + '_ {
    let usual = Rules::of(trace);
    [usual, Rules { environment: true, ..usual }].into_iter().flat_map(move |rules| {
        let shorter = causal_past(trace, rules)
            .map(|causal_past| static_order::simplify(&causal_past, rules).apply(&causal_past));
        let whole = std::iter::once_with(move || static_order::simplify(trace, rules).apply(trace));
        shorter.into_iter().chain(whole)
    })
}

/// A function that makes candidates of a trace; it is passed a check for interruption.
type CandidateGenerator<E> =
    fn(&Trace, Option<usize>, &dyn Fn() -> Result<(), E>) -> Result<Vec<Candidate>, E>;

/// Returns a hash of an order of events.
fn fingerprint_of_order(order: &[usize]) -> u64 {
    let mut hasher = DefaultHasher::new();
    order.hash(&mut hasher);
    hasher.finish()
}

struct Simplifier<'a, R: Runner> {
    goal: Goal,
    runner: RunCache<'a, R>,
    options: &'a SimplifyOptions,
    watch: &'a mut dyn FnMut(Improvement<'_>),
    stats: SimplificationStats,
    /// Fingerprints of all executed orders.
    known: HashSet<u64>,
    /// Changes that led to no improvement.
    failed: HashSet<Change>,
    proof: Option<Proof>,
    /// The number of context switches that is proved insufficient.
    switches_ruled_out: Option<u64>,
    /// Whether the events seem to show everything that matters: so far no order that keeps their dependences
    /// had another result. Otherwise orders with the same dependences are not equivalent.
    events_are_complete: bool,
}

impl<R: Runner> Simplifier<'_, R> {
    fn run(&mut self) -> Result<(), R::Error> {
        let start = self.goal.best.clone();
        self.improve_statically(&start)?;
        self.descend()?;
        if self.options.effort >= 1 {
            self.restart_with_tinertia(&start)?;
        }
        if self.options.effort >= 2 || self.options.prove {
            self.search()?;
        }
        Ok(())
    }

    /// Tries all operations in turn until none improves the best trace.
    fn descend(&mut self) -> Result<(), R::Error> {
        loop {
            self.stats.rounds += 1;
            let better = self.try_candidates(candidates::fewer_switches)?
                || self.try_candidates(candidates::fewer_preemptions)?;
            if !better {
                return Ok(());
            }
        }
    }

    /// Simplifies the original trace by Tinertia alone.
    fn restart_with_tinertia(&mut self, start: &Trace) -> Result<(), R::Error> {
        let mut tinertia_only = dynamic::simplify(start, &mut self.runner, &mut |_| {});
        self.stats.rounds += tinertia_only.stats.rounds;
        self.count();
        if let Some(stopped) = tinertia_only.stopped.take() {
            return Err(stopped);
        }
        if self.goal.is_met_by(&tinertia_only.trace) {
            self.stats.take_contributions(&tinertia_only.stats);
            self.goal.best = tinertia_only.trace.clone();
        }
        self.improve_statically(&tinertia_only.trace)?;
        self.descend()
    }

    /// Searches all cheaper schedules, as far as the budget goes. States with the same events count as equal.
    fn search(&mut self) -> Result<(), R::Error> {
        if !self.events_are_complete {
            return Ok(());
        }
        let mut left = if self.options.prove {
            u64::MAX
        } else {
            SEARCH * u64::from(self.options.effort.saturating_sub(1))
        };
        loop {
            let limits = prove::ProofLimits {
                executions: left.min(self.runs_left() as u64),
                ..prove::ProofLimits::default()
            };
            let found = prove::prove(&self.goal.best, self.runner.runner, &limits, &mut |_, _| {});
            left = left.saturating_sub(found.executions);
            self.runner.runs += found.executions;
            self.count();
            self.switches_ruled_out = found.switches_ruled_out;
            if let Some(stopped) = found.stopped {
                return Err(stopped);
            }
            match found.verdict {
                ProofVerdict::Better(better) => {
                    self.adopt(*better.clone(), Transformation::Search);
                    self.improve_statically(&better)?;
                    self.descend()?;
                }
                ProofVerdict::Minimal(proof) => {
                    self.proof = Some(proof);
                    return Ok(());
                }
                ProofVerdict::Unfinished => return Ok(()),
            }
        }
    }

    fn count(&mut self) {
        self.stats.executions = self.runner.runs;
    }

    /// Returns the number of runs left.
    fn runs_left(&self) -> usize {
        usize::try_from(self.options.executions.saturating_sub(self.stats.executions)).unwrap_or(usize::MAX)
    }

    /// Tries orders of this trace's events that keep its dependences; returns whether one is better than the
    /// best.
    fn improve_statically(&mut self, trace: &Trace) -> Result<bool, R::Error> {
        self.runner.check_interrupt()?;
        for candidate in static_orders(trace) {
            self.runner.check_interrupt()?;
            let order: Vec<usize> = (0..candidate.events.len()).collect();
            if rank(&candidate) >= rank(&self.goal.best) || self.runs_left() == 0 {
                continue;
            }
            let plan = relaxed_plan(&candidate, &order, &[]);
            let actual = self.runner.run(&plan)?;
            self.count();
            if actual.signature() != self.goal.signature {
                self.mark_events_incomplete();
            }
            if self.goal.is_met_by(&actual) {
                self.adopt(actual, Transformation::Static);
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The events do not show everything that matters, so nothing that they ruled out is ruled out.
    fn mark_events_incomplete(&mut self) {
        if std::mem::take(&mut self.events_are_complete) {
            self.known.clear();
            self.failed.clear();
        }
    }

    fn adopt(&mut self, actual: Trace, transformation: Transformation) {
        let (before, after) = (Cost::of(&self.goal.best.events).switches, Cost::of(&actual.events).switches);
        self.stats.credit(transformation, before, after);
        self.goal.best = actual;
        (self.watch)(Improvement { transformation, trace: &self.goal.best, stats: &self.stats });
    }

    /// Runs candidates made of the best trace until one of them is better; returns whether one was.
    fn try_candidates(&mut self, generate: CandidateGenerator<R::Error>) -> Result<bool, R::Error> {
        let base = self.goal.best.clone();
        let rules = Rules::of(&base);
        let mut prints = Vec::new();
        let mut candidates = Vec::new();
        for candidate in generate(&base, self.options.suffix, &|| self.runner.check_interrupt())? {
            if self.failed.contains(&candidate.change) {
                continue;
            }
            self.runner.check_interrupt()?;
            let mut print = if self.events_are_complete {
                fingerprints(&base, &candidate.order, rules).states.last().copied().unwrap_or(0)
            } else {
                fingerprint_of_order(&candidate.order)
            };
            for &place in &candidate.run_on {
                print = print.rotate_left(1) ^ (place as u64 + 1).wrapping_mul(0x5851_f42d_4c95_7f2d);
            }
            if !self.known.contains(&print) && !prints.contains(&print) {
                prints.push(print);
                candidates.push(candidate);
            }
        }
        let plan_of = |candidate: &Candidate| relaxed_plan(&base, &candidate.order, &candidate.run_on);
        let mut at = 0;
        while at < candidates.len() && self.runs_left() > 0 {
            // Candidates that are certainly no improvement need no run. Within a batch that is decided when the
            // runs before have their results, as it would be without batches.
            let mut batch: Vec<(usize, Plan)> = Vec::new();
            let most = self.options.batch.max(1).min(self.runs_left());
            let mut next = at;
            while next < candidates.len() && batch.len() < most {
                self.runner.check_interrupt()?;
                let plan = plan_of(&candidates[next]);
                if batch.is_empty() && self.is_known_useless(&plan) {
                    self.mark_tried(&candidates[next], prints[next]);
                    at = next + 1;
                } else if !batch.is_empty()
                    && (self.runner.get(&plan).is_some() || batch.iter().any(|(_, other)| *other == plan))
                {
                    break;
                } else {
                    batch.push((next, plan));
                }
                next += 1;
            }
            let ahead: Vec<Plan> = candidates[at..].iter().take(AHEAD).map(plan_of).collect();
            self.runner.runner.announce_plans(&ahead);
            let plans: Vec<Plan> = batch.iter().map(|(_, plan)| plan.clone()).collect();
            let goal = &self.goal;
            let traces = self.runner.runner.run_until(&plans, &mut |_, trace| goal.is_near(trace))?;
            for ((candidate, plan), trace) in batch.into_iter().zip(traces) {
                at = candidate + 1;
                let candidate = &candidates[candidate];
                self.mark_tried(candidate, prints[at - 1]);
                self.runner.insert(&plan, &trace);
                self.count();
                if self.goal.is_met_by(&trace) {
                    self.failed.remove(&candidate.change);
                    self.adopt(trace.clone(), candidate.transformation);
                    self.improve_statically(&trace)?;
                    return Ok(true);
                }
                if trace.signature() == self.goal.signature && self.improve_statically(&trace)? {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Records that a candidate need not be tried again.
    fn mark_tried(&mut self, candidate: &Candidate, print: u64) {
        self.known.insert(print);
        self.failed.insert(candidate.change.clone());
    }

    /// Returns whether the result of a plan is known, and is no improvement.
    fn is_known_useless(&self, plan: &Plan) -> bool {
        self.runner.get(plan).is_some_and(|trace| !self.goal.is_near(trace))
    }
}
