//! Static first, dynamic after it: what users get.
//!
//! Both papers together do more with fewer runs than either:
//!
//! 1. The order of events is improved without running anything, and what the failure does not depend on is left
//!    out ([`crate::static_order`]). One run confirms it; if it does not, something is not seen by the events, and
//!    stricter rules get a try.
//! 2. Tinertia's operations, on what is left. Each is a *candidate*: an order of the trace's events that breaks
//!    some dependence, since those that break none are behind us. A candidate that cannot happen as it stands is
//!    left out, and so is one that means the same as one that was run before (`static_order/fingerprint.rs`).
//!    Those that break the fewest dependences come first.
//! 3. What is executed is improved statically as well before it is judged. So a candidate need not be good itself
//!    to lead somewhere.
//! 4. When no candidate has fewer context switches, those with fewer preemptions are tried.
//! 5. With effort, Tinertia goes its own way from the start, which now and then leads further; so the result is
//!    never worse than its.
//! 6. With more effort, all schedules are gone through that ask for less ([`crate::prove`]).
//!
//! What comes of a schedule is told from what was learned before, where that is possible ([`crate::simulation`]): then it is
//! only run if it leads somewhere.
//!
//! Every trace that is kept was executed, and each is better than the one before: fewer context switches, then
//! fewer preemptions, then fewer events. Candidates are run in batches, in an order that does not depend on how
//! many are run at once; so the result does not either.

mod candidates;
mod simulator;

use crate::{
    Cost, Runner,
    dynamic::{self, Improvement, Operation, Simplified, Tally, script::relaxed_plan},
    prove::{self, Certificate, ProofVerdict},
    static_order::{self, Rules, causal_past::causal_past, fingerprint::fingerprints},
};
use candidates::{Candidate, Change};
use simulator::{PlanKnowledge, Simulator};
use std::{
    collections::HashSet,
    hash::{DefaultHasher, Hash, Hasher},
};
use unsnarl_model::{Plan, Signature, Trace};

/// How many of the next candidates the runner is told of in advance.
const AHEAD: usize = 16;

/// Runs of a systematic search for each step of effort.
pub const SEARCH: u64 = 500;

/// How to go about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SimplifyOptions {
    /// How many candidates are handed to the runner at once: as many as it runs at a time. More are run in vain.
    pub batch: usize,
    /// Only the last so many segments are changed by running (Tinertia, section 5.4). That bounds the runs for long
    /// traces; none for as many as can be looked at in reasonable time, which is all of them unless the trace is
    /// very long.
    pub suffix: Option<usize>,
    /// No more runs than this.
    pub executions: u64,
    /// How hard to look for the last bit. 0: only changes that are likely to work, each once. 1 and more: also from
    /// the start by Tinertia alone, so that the result is certainly not worse than its. 2 and more: also all schedules
    /// that ask for less, with [`SEARCH`] runs for each further step of effort.
    pub effort: u32,
    /// Whether to go on until it is proved that there is nothing better, as far as the runs allow.
    pub prove: bool,
}

impl Default for SimplifyOptions {
    fn default() -> Self {
        Self { batch: 1, suffix: None, executions: 10_000, effort: 0, prove: false }
    }
}

/// Simplifies a failing trace. `watch` is told of each step.
pub fn simplify<R: Runner>(
    trace: &Trace,
    runner: &mut R,
    options: &SimplifyOptions,
    watch: &mut dyn FnMut(Improvement<'_>),
) -> Simplified<R::Error> {
    let goal = Goal { signature: trace.signature(), best: trace.clone() };
    let mut work = Simplifier {
        goal,
        runner: Simulator::new(trace, runner),
        options,
        watch,
        tally: Tally::default(),
        known: HashSet::new(),
        failed: HashSet::new(),
        certificate: None,
        switches_ruled_out: None,
        events_are_complete: true,
    };
    let stopped = work.run().err();
    work.count();
    let Simplifier { goal, tally, certificate, switches_ruled_out, events_are_complete, .. } = work;
    Simplified {
        trace: goal.best,
        tally,
        certificate,
        switches_ruled_out,
        has_hidden_dependence: !events_are_complete,
        stopped,
    }
}

/// The best of what several traces of the same failure are simplified to.
pub fn simplify_best<R: Runner>(
    traces: &[Trace],
    runner: &mut R,
    options: &SimplifyOptions,
    watch: &mut dyn FnMut(Improvement<'_>),
) -> Option<Simplified<R::Error>> {
    let mut best: Option<Simplified<R::Error>> = None;
    for trace in traces {
        let mut found = simplify(trace, runner, options, watch);
        if let Some(earlier) = best {
            found.tally.add_runs(&earlier.tally);
            if worth(&earlier.trace) <= worth(&found.trace) {
                found.tally.take_contributions(&earlier.tally);
                (found.trace, found.certificate) = (earlier.trace, earlier.certificate);
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

/// What is compared: the lower the better.
fn worth(trace: &Trace) -> (Cost, usize) {
    (Cost::of(&trace.events), trace.events.len())
}

/// What is looked for.
struct Goal {
    signature: Signature,
    best: Trace,
}

impl Goal {
    /// Whether it is the same failure and better than the best.
    fn is_met(&self, actual: &Trace) -> bool {
        actual.signature() == self.signature && worth(actual) < worth(&self.best)
    }

    /// The same, or it can be made so without running.
    fn is_near(&self, actual: &Trace) -> bool {
        actual.signature() == self.signature
            && (worth(actual) < worth(&self.best)
                || static_orders(actual).any(|order| worth(&order) < worth(&self.best)))
    }
}

/// The trace in orders that keep its dependences: first without what the failure does not depend on, and first by
/// the usual rules.
fn static_orders(trace: &Trace) -> impl Iterator<Item = Trace> + '_ {
    let usual = Rules::of(trace);
    [usual, Rules { environment: true, ..usual }].into_iter().flat_map(move |rules| {
        let shorter = causal_past(trace, rules)
            .map(|causal_past| static_order::simplify(&causal_past, rules).apply(&causal_past));
        let whole = std::iter::once_with(move || static_order::simplify(trace, rules).apply(trace));
        shorter.into_iter().chain(whole)
    })
}

/// What makes candidates of a trace, and asks whether it may go on.
type Make<E> = fn(&Trace, Option<usize>, &dyn Fn() -> Result<(), E>) -> Result<Vec<Candidate>, E>;

/// A number for an order of a trace's events.
fn fingerprint_of_order(order: &[usize]) -> u64 {
    let mut hasher = DefaultHasher::new();
    order.hash(&mut hasher);
    hasher.finish()
}

struct Simplifier<'a, R: Runner> {
    goal: Goal,
    runner: Simulator<'a, R>,
    options: &'a SimplifyOptions,
    watch: &'a mut dyn FnMut(Improvement<'_>),
    tally: Tally,
    /// Fingerprints of all that was run.
    known: HashSet<u64>,
    /// Changes that led nowhere.
    failed: HashSet<Change>,
    certificate: Option<Certificate>,
    /// It is proved that so many context switches are not enough.
    switches_ruled_out: Option<u64>,
    /// Whether the events tell all that matters, as far as can be seen: no order that keeps their dependences led
    /// elsewhere. If not, orders that mean the same by the events are not the same.
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

    /// Tries one thing after the other until nothing makes the best trace better.
    fn descend(&mut self) -> Result<(), R::Error> {
        loop {
            self.tally.rounds += 1;
            let better = self.try_candidates(candidates::fewer_switches)?
                || self.try_candidates(candidates::fewer_preemptions)?;
            if !better {
                return Ok(());
            }
        }
    }

    /// Goes another way, by Tinertia alone. Most of what it would run is known by now.
    fn restart_with_tinertia(&mut self, start: &Trace) -> Result<(), R::Error> {
        let mispredictions = self.runner.mispredictions();
        let mut tinertia_only = dynamic::simplify(start, &mut self.runner, &mut |_| {});
        self.tally.rounds += tinertia_only.tally.rounds;
        self.count();
        if let Some(stopped) = tinertia_only.stopped.take() {
            return Err(stopped);
        }
        if self.runner.mispredictions() > mispredictions {
            // Something that was told on the way may be wrong.
            return self.restart_with_tinertia(start);
        }
        if self.goal.is_met(&tinertia_only.trace) {
            // It may be only known what would come of it: then it is run now.
            let order: Vec<usize> = (0..tinertia_only.trace.events.len()).collect();
            let actual = self.runner.run(&relaxed_plan(&tinertia_only.trace, &order, &[]))?;
            self.count();
            if self.runner.mispredictions() > mispredictions {
                return self.restart_with_tinertia(start);
            }
            if self.goal.is_met(&actual) {
                self.tally.take_contributions(&tinertia_only.tally);
                self.goal.best = actual;
            }
        }
        self.improve_statically(&tinertia_only.trace)?;
        self.descend()
    }

    /// Looks through all schedules that ask for less, as far as the budget goes. It takes states for the same that
    /// are the same by their events.
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
                executions: left.min(self.room() as u64),
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
                    self.adopt(*better.clone(), Operation::Search);
                    self.improve_statically(&better)?;
                    self.descend()?;
                }
                ProofVerdict::Minimal(certificate) => {
                    self.certificate = Some(certificate);
                    return Ok(());
                }
                ProofVerdict::Unfinished => return Ok(()),
            }
        }
    }

    fn count(&mut self) {
        (self.tally.executions, self.tally.simulated) = (self.runner.runs, self.runner.simulated);
    }

    /// How many more runs there may be.
    fn room(&self) -> usize {
        usize::try_from(self.options.executions.saturating_sub(self.tally.executions)).unwrap_or(usize::MAX)
    }

    /// Tries orders of this trace's events that keep its dependences; whether one is better than the best.
    fn improve_statically(&mut self, trace: &Trace) -> Result<bool, R::Error> {
        self.runner.check_interrupt()?;
        for candidate in static_orders(trace) {
            self.runner.check_interrupt()?;
            let order: Vec<usize> = (0..candidate.events.len()).collect();
            if worth(&candidate) >= worth(&self.goal.best) || self.room() == 0 {
                continue;
            }
            let plan = relaxed_plan(&candidate, &order, &[]);
            if let PlanKnowledge::Simulated(trace) = self.runner.lookup(&plan, None)
                && !self.goal.is_met(&trace)
                && trace.signature() == self.goal.signature
            {
                self.runner.simulated += 1;
                continue;
            }
            let actual = self.runner.run(&plan)?;
            self.count();
            if actual.signature() != self.goal.signature {
                self.distrust();
            }
            if self.goal.is_met(&actual) {
                self.adopt(actual, Operation::Static);
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Something that matters is not among the events: what was ruled out by them is not ruled out.
    fn distrust(&mut self) {
        if std::mem::take(&mut self.events_are_complete) {
            self.known.clear();
            self.failed.clear();
            self.runner.disable_simulation();
        }
    }

    fn adopt(&mut self, actual: Trace, operation: Operation) {
        let (before, after) = (Cost::of(&self.goal.best.events).switches, Cost::of(&actual.events).switches);
        self.tally.credit(operation, before, after);
        self.goal.best = actual;
        (self.watch)(Improvement { operation, trace: &self.goal.best, tally: &self.tally });
    }

    /// Runs candidates made of the best trace until one of them is better; whether one was.
    fn try_candidates(&mut self, make: Make<R::Error>) -> Result<bool, R::Error> {
        let base = self.goal.best.clone();
        let rules = Rules::of(&base);
        let mut prints = Vec::new();
        let mut candidates = Vec::new();
        for candidate in make(&base, self.options.suffix, &|| self.runner.check_interrupt())? {
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
        while at < candidates.len() && self.room() > 0 {
            // What leads nowhere for certain needs no run.
            let mut batch: Vec<(usize, Plan)> = Vec::new();
            let most = self.options.batch.max(1).min(self.room());
            let mut next = at;
            while next < candidates.len() && batch.len() < most {
                self.runner.check_interrupt()?;
                let plan = plan_of(&candidates[next]);
                if batch.is_empty() && self.is_known_useless(&plan) {
                    self.mark_tried(&candidates[next], prints[next]);
                    at = next + 1;
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
            let mut choices = self.runner.choices(traces.len()).into_iter();
            for ((candidate, plan), trace) in batch.into_iter().zip(traces) {
                at = candidate + 1;
                let candidate = &candidates[candidate];
                let choices = choices.next().unwrap_or_default();
                self.mark_tried(candidate, prints[at - 1]);
                // By what the runs before it have shown: then it was run in vain, as what follows a success is.
                if self.is_known_useless(&plan) {
                    continue;
                }
                self.runner.learn(&plan, &trace, &choices);
                self.count();
                if self.goal.is_met(&trace) {
                    self.failed.remove(&candidate.change);
                    self.adopt(trace.clone(), candidate.operation);
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

    /// A candidate need not be tried again.
    fn mark_tried(&mut self, candidate: &Candidate, print: u64) {
        self.known.insert(print);
        self.failed.insert(candidate.change.clone());
    }

    /// Whether it is known what comes of a plan, and that it is nothing better.
    fn is_known_useless(&mut self, plan: &Plan) -> bool {
        let nowhere = match self.runner.lookup(plan, None) {
            PlanKnowledge::Executed(trace) | PlanKnowledge::Simulated(trace) => !self.goal.is_near(&trace),
            PlanKnowledge::Unknown => false,
        };
        self.runner.simulated += u64::from(nowhere);
        nowhere
    }
}
