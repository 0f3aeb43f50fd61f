//! Static simplification first, then dynamic: the algorithm that users get.
//!
//! The two papers combined achieve more with fewer runs than either alone:
//!
//! 1. The order of events is improved without running anything, and events that the failure does not depend
//!    on are left out ([`crate::static_order`]). One run confirms the result; if it does not, the events do
//!    not show everything that matters, and stricter rules are tried.
//! 2. If many segments are left, the end and the beginning of the schedule are left out as far as possible
//!    (`truncation`), and groups of segments are executed thread by thread, large groups first (`groups`).
//!    If many are left after that, Tinertia continues with them.
//! 3. Rounds of a loop that changed nothing are left out (`rounds`).
//! 4. Tinertia's operations are applied to the rest. Each yields a *candidate*: an order of the trace's
//!    events that breaks some dependence, since the orders that break none are already covered. A candidate
//!    that is infeasible as it stands is skipped, and so is one that is equivalent to an executed one
//!    (`static_order/fingerprint.rs`). Those that break the fewest dependences come first.
//! 5. An executed trace is improved statically as well before it is judged. So a candidate need not be good
//!    itself to lead to an improvement.
//! 6. When no candidate has fewer context switches, those with fewer preemptions are tried.
//! 7. With effort 1 or more, Tinertia also runs by itself from the start, which sometimes gets further. In a long
//!    simplification it takes turns with the others (`tinertia`).
//! 8. With effort 1 or more, all cheaper schedules are searched ([`crate::prove`]), as far as few runs go.
//! 9. Everything is repeated from the result until nothing changes, so simplifying a result changes nothing.
//!
//! Every trace that is kept was executed, and each is better than the one before: fewer context switches,
//! then fewer preemptions, then fewer events. Candidates are run in batches, in an order that does not depend
//! on how many run at once; so the result does not either. The work of an analysis that only may help is weighed
//! against that of the runs (`balance`).

mod balance;
mod candidates;
mod conflicts;
mod goal;
mod groups;
mod hang;
mod rounds;
mod run_cache;
mod tinertia;
mod truncation;

use crate::{
    Cost, Runner,
    dynamic::{
        Improvement, SimplificationResult, SimplificationStats, Transformation, bounded,
        segment_order::{SegmentOrder, relaxed_plan},
        with_limits,
    },
    livelock::{CuttingRunner, cut, is_livelock},
    prove::{self, Proof, ProofVerdict},
    static_order::{self, Rules, causal_past::causal_past, fingerprint::fingerprints},
};
use balance::{Balance, Judgement};
use candidates::{Aim, Candidate, Candidates, Change};
use goal::{Goal, rank};
use groups::Position;
use run_cache::RunCache;
use std::{
    collections::{HashSet, VecDeque},
    hash::{DefaultHasher, Hash, Hasher},
};
use tinertia::TakesTurns;
use truncation::Part;
use unsnarl_model::{Event, Plan, Trace};

/// The number of next candidates announced to the runner in advance.
const AHEAD: usize = 16;

/// The maximum number of events of a trace whose next candidates are announced, and compared by fingerprints: for
/// longer ones that takes as long as running them.
const SHORT: usize = 1_000;

/// The number of segments that are tried one by one; if there are more, groups are tried first.
const FEW_SEGMENTS: usize = 64;

/// If more segments than this are left, Tinertia continues with them: it needs no ranking and takes them as they come.
const MANY_SEGMENTS: usize = 32;

/// The number of runs of the systematic search for each step of effort.
pub const SEARCH: u64 = 500;

/// The number of runs of the systematic search with effort 1, if preemptions are left.
const SHORT_SEARCH: u64 = 300;

/// The maximum number of events of a trace that is searched, for each step of effort: in longer ones, so many
/// runs do not get anywhere.
const SEARCHED_EVENTS: usize = 1_000;

/// Options of the simplification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SimplifyOptions {
    /// The number of candidates handed to the runner at once: as many as it runs in parallel. Additional ones
    /// are run without use.
    pub batch: usize,
    /// Only the last `suffix` segments are changed by running (Tinertia, section 5.4), which bounds the runs
    /// for long traces. `None` for all of them.
    pub suffix: Option<usize>,
    /// The maximum number of runs.
    pub executions: u64,
    /// How hard to search. 0: only changes that are likely to work, each once. 1 and more: also Tinertia
    /// alone from the start, and a short search through all cheaper schedules, until nothing changes any more. 2 and
    /// more: a longer search, with [`SEARCH`] runs for each further step of effort.
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
    let mut runner = CuttingRunner(runner);
    let start = cut(bounded(trace));
    let switches = [trace, &start].map(|trace| Cost::of(&trace.events).switches);
    let mut work = Simplifier {
        stats: SimplificationStats::of(Transformation::RemoveLast, switches[0], switches[1]),
        goal: Goal::of(start),
        runner: RunCache::new(&mut runner),
        options,
        watch,
        known: HashSet::new(),
        failed: HashSet::new(),
        tinertia: None,
        balance: Balance::default(),
        is_unordered: false,
        proof: None,
        switches_ruled_out: None,
        events_are_complete: true,
        has_hidden_dependence: false,
        runs_of_first_pass: None,
    };
    let stopped = work.run().err();
    work.count();
    let Simplifier { goal, stats, proof, switches_ruled_out, has_hidden_dependence, .. } = work;
    SimplificationResult {
        trace: with_limits(goal.best, trace.plan.limits),
        stats,
        proof,
        switches_ruled_out,
        has_hidden_dependence,
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

/// The number of orders that are searched for a trace.
const ORDERS: u64 = 4;

/// Judges an executed trace. One that is no improvement is reordered as well, if that is worth it beside this much
/// work of the runs.
fn judge(goal: &Goal, balance: &mut Balance, runs: u64, trace: &Trace) -> Judgement {
    if !goal.is_same_failure(trace) {
        return Judgement { reach: None, orders: None };
    }
    let own = rank(trace);
    if own < goal.rank || !balance.allows(trace, ORDERS, runs) {
        return Judgement { reach: Some(own), orders: None };
    }
    let orders: Vec<Trace> = static_orders(trace).collect();
    let best = orders.iter().map(rank).min();
    Judgement { reach: Some(best.map_or(own, |best| best.min(own))), orders: Some(orders) }
}

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
    /// Tinertia by itself.
    tinertia: Option<TakesTurns>,
    balance: Balance,
    /// True if other orders of the best trace have not been tried, because that takes long.
    is_unordered: bool,
    proof: Option<Proof>,
    /// The number of context switches that is proved insufficient.
    switches_ruled_out: Option<u64>,
    /// Whether the events seem to show everything that matters: so far no order that keeps their dependences
    /// had another result. Otherwise orders with the same dependences are not equivalent.
    events_are_complete: bool,
    /// True if that was ever disproved.
    has_hidden_dependence: bool,
    /// The number of runs before the first search.
    runs_of_first_pass: Option<u64>,
}

/// A candidate with the plan that runs it.
struct Attempt {
    candidate: Candidate,
    plan: Plan,
    /// The fingerprint of its order.
    print: u64,
}

impl<R: Runner> Simplifier<'_, R> {
    /// Repeats all steps until none improves the best trace.
    fn run(&mut self) -> Result<(), R::Error> {
        let mut searched = None;
        loop {
            let before = self.goal.rank;
            self.forget();
            self.pass()?;
            self.runs_of_first_pass.get_or_insert(self.runner.runs);
            if searched != Some(self.goal.rank) {
                self.search()?;
                searched = Some(self.goal.rank).filter(|_| self.events_are_complete);
            }
            if self.options.effort == 0 || self.goal.rank == before {
                return Ok(());
            }
        }
    }

    /// Begins again as if the best trace had been given.
    fn forget(&mut self) {
        self.known.clear();
        self.failed.clear();
        self.events_are_complete = true;
    }

    /// Takes all steps but the search, beginning with the best trace.
    fn pass(&mut self) -> Result<(), R::Error> {
        let (start, before) = (self.goal.best.clone(), self.goal.rank);
        self.improve_statically(&start)?;
        if self.options.effort >= 1 {
            self.tinertia = Some(TakesTurns::new(start, self.runner.work));
        }
        self.consolidate_groups()?;
        // If nothing has changed, that is what Tinertia by itself does.
        if self.goal.rank < before || self.options.effort == 0 {
            self.sweep()?;
        }
        self.descend()?;
        self.finish_tinertia()
    }

    /// Tries all operations in turn until none improves the best trace.
    fn descend(&mut self) -> Result<(), R::Error> {
        loop {
            self.stats.rounds += 1;
            let better = self.try_candidates(Aim::FewerSwitches)?
                || self.try_candidates(Aim::FewerPreemptions)?
                || self.drop_rounds()?;
            let better = self.take_turns()? || better;
            if !better && (!std::mem::take(&mut self.is_unordered) || !self.reorder_best()?) {
                return Ok(());
            }
        }
    }

    /// Searches all cheaper schedules, as far as the budget goes. States with the same events count as equal.
    fn search(&mut self) -> Result<(), R::Error> {
        let SimplifyOptions { effort, prove, .. } = *self.options;
        let most = match effort {
            _ if prove => u64::MAX,
            0 => 0,
            1 => SHORT_SEARCH,
            _ => SEARCH * u64::from(effort - 1),
        };
        // Influences that are no events can make a proof wrong, but not a schedule that was found.
        // A livelock goes on for ever, so the cost of a part of it proves nothing.
        let may_search = self.events_are_complete
            && !(prove && self.has_hidden_dependence)
            && !is_livelock(&self.goal.best);
        while most > 0 && may_search && (prove || self.is_worth_searching()) {
            let limits = prove::ProofLimits {
                executions: most.min(self.runs_left() as u64),
                ..prove::ProofLimits::default()
            };
            let found = prove::prove(&self.goal.best, self.runner.runner, &limits, &mut |_, _| {});
            self.runner.runs += found.executions;
            self.count();
            self.switches_ruled_out = found.switches_ruled_out.filter(|_| !self.has_hidden_dependence);
            if let Some(stopped) = found.stopped {
                return Err(stopped);
            }
            match found.verdict {
                ProofVerdict::Better(better) => {
                    if !self.accept(*better.clone(), Transformation::Search)? {
                        break;
                    }
                    self.improve_statically(&better)?;
                    self.descend()?;
                }
                ProofVerdict::Minimal(proof) => {
                    self.proof = Some(proof).filter(|_| !self.has_hidden_dependence);
                    break;
                }
                ProofVerdict::Unfinished => break,
            }
        }
        Ok(())
    }

    /// Returns whether the search may find something with these runs.
    fn is_worth_searching(&self) -> bool {
        let effort = self.options.effort;
        let most = SEARCHED_EVENTS.saturating_mul(effort as usize);
        self.goal.best.events.len() <= most && (effort >= 2 || self.goal.rank.0.preemptions > 0)
    }

    fn count(&mut self) {
        self.stats.executions = self.runner.runs;
        self.stats.search_executions = self.runs_of_first_pass.map_or(0, |runs| self.runner.runs - runs);
    }

    /// Returns the number of runs left.
    fn runs_left(&self) -> usize {
        usize::try_from(self.options.executions.saturating_sub(self.runner.runs)).unwrap_or(usize::MAX)
    }

    /// Runs a plan, unless its result is known.
    fn execute(&mut self, plan: &Plan) -> Result<Trace, R::Error> {
        self.runner.runner.check_interrupt()?;
        // The plans that were announced begin in another way.
        self.runner.runner.announce_plans(&[]);
        let actual = self.runner.run(plan, |trace| {
            let is_long = trace.events.len() > SHORT;
            is_long.then(|| self.goal.is_same_failure(trace).then(|| rank(trace)))
        })?;
        self.count();
        Ok(actual)
    }

    /// Tries orders of this trace's events that keep its dependences; returns whether one is better than the
    /// best.
    fn improve_statically(&mut self, trace: &Trace) -> Result<bool, R::Error> {
        self.runner.runner.check_interrupt()?;
        self.try_orders(static_orders(trace))
    }

    /// Tries other orders of the best trace; returns whether one is better.
    fn reorder_best(&mut self) -> Result<bool, R::Error> {
        let best = self.goal.best.clone();
        self.improve_statically(&best)
    }

    /// Tries other orders of the best trace, unless that takes much longer than the runs.
    fn reorder_best_if_worth_it(&mut self) -> Result<bool, R::Error> {
        if self.balance.allows(&self.goal.best, ORDERS, self.runner.work) {
            return self.reorder_best();
        }
        self.is_unordered = true;
        Ok(false)
    }

    /// Runs those of these orders that are better than the best trace until one of them is confirmed.
    fn try_orders(&mut self, orders: impl IntoIterator<Item = Trace>) -> Result<bool, R::Error> {
        for candidate in orders {
            self.runner.runner.check_interrupt()?;
            if rank(&candidate) >= self.goal.rank || self.runs_left() == 0 {
                continue;
            }
            let order: Vec<usize> = (0..candidate.events.len()).collect();
            let actual = self.execute(&relaxed_plan(&candidate, &order, &[]))?;
            if !self.goal.is_same_failure(&actual) {
                self.mark_events_incomplete();
            }
            if self.accept(actual, Transformation::Static)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The events do not show everything that matters, so nothing that they ruled out is ruled out.
    fn mark_events_incomplete(&mut self) {
        self.has_hidden_dependence = true;
        if std::mem::take(&mut self.events_are_complete) {
            self.known.clear();
            self.failed.clear();
        }
    }

    fn adopt(&mut self, actual: Trace, transformation: Transformation) {
        let new = rank(&actual);
        self.stats.credit(transformation, self.goal.rank.0.switches, new.0.switches);
        (self.goal.best, self.goal.rank) = (actual, new);
        (self.watch)(Improvement { transformation, trace: &self.goal.best, stats: &self.stats });
    }

    /// If many segments are left, leaves out the end and the beginning of the schedule, and executes groups of segments
    /// thread by thread: first half of the trace at a time, then half of that.
    fn consolidate_groups(&mut self) -> Result<(), R::Error> {
        for part in [Part::End, Part::Beginning] {
            if SegmentOrder::of(&self.goal.best.events).pieces.len() > FEW_SEGMENTS {
                self.truncate(part)?;
            }
        }
        let mut size = SegmentOrder::of(&self.goal.best.events).pieces.len().next_power_of_two();
        while size >= 4 && SegmentOrder::of(&self.goal.best.events).pieces.len() > FEW_SEGMENTS {
            let before = self.goal.rank;
            self.consolidate_groups_of(size)?;
            if self.goal.rank < before {
                self.reorder_best_if_worth_it()?;
            }
            size /= 2;
        }
        Ok(())
    }

    /// Tries the groups of this many segments, from the first to the last.
    fn consolidate_groups_of(&mut self, size: usize) -> Result<(), R::Error> {
        let mut base = self.goal.best.clone();
        let mut segments = SegmentOrder::of(&base.events);
        let mut position = Position::start(&base.events);
        let mut at = self.options.suffix.map_or(0, |suffix| segments.pieces.len().saturating_sub(suffix));
        while at < segments.pieces.len() && self.runs_left() > 0 {
            self.runner.runner.check_interrupt()?;
            let group = at..(at + size).min(segments.pieces.len());
            let start = segments.pieces[at].from;
            position.advance(&base.events, start);
            at = group.end;
            let Some(candidate) = position.consolidated(&base.events, &segments, group.clone()) else {
                continue;
            };
            let plan = candidate.plan(&base);
            if self.is_known_useless(&plan) {
                continue;
            }
            let actual = self.execute(&plan)?;
            if self.goal.is_met_by(&actual) {
                let same = |(a, b): &(&Event, &Event)| (a.thread, a.op, a.addr) == (b.thread, b.op, b.addr);
                let common = base.events.iter().zip(&actual.events).take(start).take_while(same).count();
                if !self.accept(actual, Transformation::ConsolidateUpTei)? {
                    continue;
                }
                base = self.goal.best.clone();
                let end = segments.pieces.get(group.end).map_or(base.events.len(), |piece| piece.from);
                segments = SegmentOrder::of(&base.events);
                if common < start {
                    position = Position::start(&base.events);
                }
                // The group has as many events as before, unless the run went another way.
                at = segments.pieces.partition_point(|piece| piece.to <= end);
            }
            if self.take_turns()? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Returns the next candidate that is worth a run.
    fn next_attempt(
        &mut self,
        base: &Trace,
        candidates: &mut Candidates<'_>,
        prints: &mut HashSet<u64>,
    ) -> Result<Option<Attempt>, R::Error> {
        loop {
            self.runner.runner.check_interrupt()?;
            let Some(candidate) = candidates.next(&mut self.failed) else { return Ok(None) };
            let mut print = if self.events_are_complete && base.events.len() <= SHORT {
                let prints = fingerprints(base, &candidate.order, Rules::of(base));
                prints.states.last().copied().unwrap_or(0)
            } else {
                fingerprint_of_order(&candidate.order)
            };
            for &place in &candidate.run_on {
                print = print.rotate_left(1) ^ (place as u64 + 1).wrapping_mul(0x5851_f42d_4c95_7f2d);
            }
            if !self.known.contains(&print) && prints.insert(print) {
                let plan = relaxed_plan(base, &candidate.order, &candidate.run_on);
                return Ok(Some(Attempt { candidate, plan, print }));
            }
        }
    }

    /// Runs candidates made of the best trace until one of them is better; returns whether one was.
    fn try_candidates(&mut self, aim: Aim) -> Result<bool, R::Error> {
        let base = self.goal.best.clone();
        let mut candidates = Candidates::of(&base, aim, self.options.suffix);
        let ahead = if base.events.len() <= SHORT { AHEAD } else { 1 };
        let mut prints = HashSet::new();
        let mut queue: VecDeque<Attempt> = VecDeque::new();
        while self.runs_left() > 0 {
            // Candidates that are certainly no improvement need no run. Within a batch that is decided when the
            // runs before have their results, as it would be without batches.
            let most = self.options.batch.max(1).min(self.runs_left());
            while queue.len() < most.max(ahead) {
                let Some(attempt) = self.next_attempt(&base, &mut candidates, &mut prints)? else { break };
                queue.push_back(attempt);
            }
            if queue.is_empty() {
                return Ok(false);
            }
            let batch = self.next_batch(&mut queue, most);
            if batch.is_empty() {
                continue;
            }
            let announced = batch.iter().chain(&queue).take(AHEAD).map(|attempt| attempt.plan.clone());
            self.runner.runner.announce_plans(&announced.collect::<Vec<_>>());
            if self.run_batch(batch, &mut queue)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Takes the next attempts to run.
    fn next_batch(&mut self, queue: &mut VecDeque<Attempt>, most: usize) -> Vec<Attempt> {
        let mut batch: Vec<Attempt> = Vec::new();
        while batch.len() < most
            && let Some(attempt) = queue.pop_front()
        {
            if batch.is_empty() && self.is_known_useless(&attempt.plan) {
                self.mark_tried(&attempt);
            } else if !batch.is_empty()
                && (self.runner.get(&attempt.plan).is_some()
                    || batch.iter().any(|other| other.plan == attempt.plan))
            {
                queue.push_front(attempt);
                break;
            } else {
                batch.push(attempt);
            }
        }
        batch
    }

    /// Runs these attempts until one of them is better, or can be made better without running; returns whether one
    /// was, or the candidates must be made again. The rest goes back to the queue.
    fn run_batch(&mut self, batch: Vec<Attempt>, queue: &mut VecDeque<Attempt>) -> Result<bool, R::Error> {
        let plans: Vec<Plan> = batch.iter().map(|attempt| attempt.plan.clone()).collect();
        let Self { goal, runner, balance, .. } = self;
        let mut judgements: Vec<Judgement> = Vec::new();
        let mut work = runner.work;
        let traces = runner.runner.run_until(&plans, &mut |_, trace| {
            let judgement = judge(goal, balance, work, trace);
            work += run_cache::work_of(trace);
            let accepted = judgement.reach.is_some_and(|reach| reach < goal.rank);
            judgements.push(judgement);
            accepted
        })?;
        let mut attempts = batch.into_iter();
        for (trace, judgement) in traces.into_iter().zip(judgements) {
            let Some(attempt) = attempts.next() else { break };
            self.mark_tried(&attempt);
            self.runner.insert(&attempt.plan, &trace, Some(judgement.reach));
            self.count();
            if self.accept(trace, attempt.candidate.transformation)? {
                self.failed.remove(&attempt.candidate.change);
                self.reorder_best_if_worth_it()?;
                return Ok(true);
            }
            let were_complete = self.events_are_complete;
            if self.try_orders(judgement.orders.into_iter().flatten())?
                || self.events_are_complete != were_complete
            {
                return Ok(true);
            }
        }
        attempts.rev().for_each(|attempt| queue.push_front(attempt));
        Ok(false)
    }

    /// Records that a candidate need not be tried again.
    fn mark_tried(&mut self, attempt: &Attempt) {
        self.known.insert(attempt.print);
        self.failed.insert(attempt.candidate.change.clone());
    }

    /// Returns whether the result of a plan is known, and is no improvement.
    fn is_known_useless(&mut self, plan: &Plan) -> bool {
        let work = self.runner.work;
        let Some(known) = self.runner.get_mut(plan) else { return false };
        if known.reach.is_none()
            && let Some(trace) = &known.trace
        {
            known.reach = Some(judge(&self.goal, &mut self.balance, work, trace).reach);
        }
        known.reach.is_some_and(|reach| reach.is_none_or(|reach| reach >= self.goal.rank))
    }
}
