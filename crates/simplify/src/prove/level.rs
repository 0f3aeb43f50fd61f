//! The search itself, level by level.

use super::{ProofLimits, pending_conflicts::PendingConflict};
use crate::{
    Cost, Runner,
    static_order::{
        Rules,
        fingerprint::{Fingerprints, fingerprints},
    },
};
use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash, Hasher},
};
use unsnarl_model::{
    Event, Fidelity, Op, Plan, Policy, Prefix, Segment, Signature, ThreadId, ThreadIx, Trace,
};
use unsnarl_semantics::{
    Enabled, Machine, OpResult, Operation, Step, ThreadOp, Touch, dependence::Relation, succeeded,
};

/// The maximum number of events of runs held at a time.
const MAX_EVENTS: usize = 2_000_000;

/// The maximum cost of a schedule.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bound {
    pub(super) switches: u64,
    pub(super) preemptions: u64,
}

/// The result of the search.
pub(super) enum SearchOutcome {
    Better(Box<Trace>),
    Nothing,
    OutOfBudget,
}

pub(super) struct LevelSearch<'a> {
    base: &'a Plan,
    /// The initial threads.
    first: Vec<ThreadId>,
    signature: Signature,
    cost: Cost,
    bound: Bound,
    limits: &'a ProofLimits,
    /// The number of runs made before they are examined.
    batch: usize,
    rules: Rules,
    pub(super) executions: u64,
    pub(super) states: u64,
    /// A checksum over all states, independent of their order.
    pub(super) digest: u64,
    pub(super) switches_ruled_out: Option<u64>,
    /// The cost at which each state was reached. A state is visited again if it is reached at a lower cost.
    visited: HashMap<u64, Vec<Visit>>,
    /// The next operation of a thread, by the fingerprint of its history.
    next: HashMap<u64, NextOperation>,
}

/// A thread's next operation.
#[derive(Clone)]
struct NextOperation {
    event: Event,
    /// The thread whose end it waits for.
    target: Option<ThreadId>,
}

/// The schedule that reached a state.
struct Visit {
    thread: ThreadId,
    switches: u64,
    preemptions: u64,
    pending_conflicts: Vec<PendingConflict>,
}

/// A schedule after which a thread is to run as far as it can.
struct Branch {
    /// The schedule up to there: threads, each with its number of points.
    schedule: Vec<(ThreadId, u32)>,
    thread: ThreadId,
    switches: u64,
    preemptions: u64,
    pending_conflicts: Vec<PendingConflict>,
}

impl Branch {
    /// Builds the branch in which the thread runs first.
    const fn first(thread: ThreadId) -> Self {
        Self { schedule: Vec::new(), thread, switches: 0, preemptions: 0, pending_conflicts: Vec::new() }
    }
}

impl<'a> LevelSearch<'a> {
    pub(super) fn new(trace: &'a Trace, bound: Bound, limits: &'a ProofLimits, executions: u64) -> Self {
        Self {
            base: &trace.plan,
            first: Lifetimes::of(trace).alive(0),
            signature: trace.signature(),
            cost: Cost::of(&trace.events),
            bound,
            limits,
            batch: limits.batch.min(MAX_EVENTS / trace.events.len().max(1)).max(1),
            rules: Rules { end: false, ..Rules::of(trace) },
            executions,
            states: 0,
            digest: 0,
            switches_ruled_out: None,
            visited: HashMap::new(),
            next: HashMap::new(),
        }
    }

    pub(super) fn run<R: Runner>(
        &mut self,
        runner: &mut R,
        watch: &mut dyn FnMut(u64, u64),
    ) -> Result<SearchOutcome, R::Error> {
        let mut level: Vec<Branch> = self.first.iter().map(|thread| Branch::first(thread.clone())).collect();
        for switches in 0..=self.bound.switches {
            let mut next_level = Vec::new();
            for batch in level.chunks(self.batch) {
                watch(self.executions, switches);
                let room = self.limits.executions.saturating_sub(self.executions);
                if room < batch.len() as u64 {
                    return Ok(SearchOutcome::OutOfBudget);
                }
                let plans: Vec<Plan> = batch.iter().map(|branch| self.plan(branch)).collect();
                let traces = runner.run_until(&plans, &mut |_, trace| self.is_better(trace))?;
                self.executions += traces.len() as u64;
                for (branch, trace) in batch.iter().zip(traces) {
                    if self.is_better(&trace) {
                        return Ok(SearchOutcome::Better(Box::new(trace)));
                    }
                    self.visit_states(branch, &trace, runner, &mut next_level)?;
                }
            }
            self.switches_ruled_out = Some(switches);
            level = next_level;
            if level.is_empty() {
                self.switches_ruled_out = Some(self.bound.switches);
                break;
            }
        }
        Ok(SearchOutcome::Nothing)
    }

    fn is_better(&self, trace: &Trace) -> bool {
        Cost::of(&trace.events) < self.cost && trace.signature() == self.signature
    }

    /// Returns the plan that follows the branch's schedule, runs its thread as far as it can, and continues
    /// arbitrarily.
    fn plan(&self, branch: &Branch) -> Plan {
        let mut threads: Vec<ThreadId> = Vec::new();
        let mut segments = Vec::new();
        let last = (branch.thread.clone(), self.limits.in_a_row);
        for (thread, points) in branch.schedule.iter().chain([&last]) {
            let known = threads.iter().position(|known| known == thread);
            let ix = known.unwrap_or_else(|| {
                threads.push(thread.clone());
                threads.len() - 1
            });
            segments.push(Segment { thread: ThreadIx(ix as u16), points: *points });
        }
        let prefix = Prefix { threads, segments, fidelity: Fidelity::Relaxed, ..Prefix::default() };
        Plan { prefix, tail: Policy::Fair, ..self.base.clone() }
    }

    /// Visits the states that the branch's thread passed, and adds the branches from there.
    fn visit_states<R: Runner>(
        &mut self,
        branch: &Branch,
        trace: &Trace,
        runner: &R,
        next_level: &mut Vec<Branch>,
    ) -> Result<(), R::Error> {
        runner.check_interrupt()?;
        let analysed = AnalysedRun::of(trace, self.rules);
        self.record_next_operations(&analysed);
        let start: usize = branch.schedule.iter().map(|(_, points)| *points as usize).sum();
        let is_own = |event: &Event| *trace.thread_id(event.thread) == branch.thread;
        let run =
            trace.events.iter().skip(start).take(self.limits.in_a_row as usize).take_while(|e| is_own(e));
        let end = start + run.count();
        let mut pending_conflicts = branch.pending_conflicts.clone();
        let mut idle: HashMap<_, u32> = HashMap::new();
        let mut machine = Machine::before(&trace.events);
        trace.events[..start].iter().for_each(|event| machine.follow(event));
        for done in start + 1..=end {
            machine.follow(&trace.events[done - 1]);
            let touches = &analysed.touches[done - 1];
            pending_conflicts
                .retain(|pending_conflicts| !pending_conflicts.is_resolved_by(&branch.thread, touches));
            let event = &trace.events[done - 1];
            if event.op.only_reads() || event.op.yields() {
                let rounds = idle.entry((event.site, Operation::decode(event))).or_default();
                *rounds += 1;
                if *rounds > self.limits.rounds {
                    continue;
                }
            } else {
                idle.clear();
            }
            if branch.switches < self.bound.switches {
                runner.check_interrupt()?;
                let state = (&machine, &pending_conflicts[..]);
                self.branch_from(branch, &analysed, (start, done, end), state, next_level);
            }
            self.states += 1;
            self.digest = self
                .digest
                .wrapping_add(analysed.fingerprints.states[done - 1].rotate_left(branch.switches as u32));
        }
        Ok(())
    }

    /// Records each thread's next operation, so that later the thread is known to be blocked.
    fn record_next_operations(&mut self, analysed: &AnalysedRun<'_>) {
        let mut latest: HashMap<ThreadIx, u64> = HashMap::new();
        for (at, event) in analysed.trace.events.iter().enumerate() {
            let before = latest.insert(event.thread, analysed.fingerprints.events[at]);
            let before = before.unwrap_or_else(|| unstarted(analysed.trace.thread_id(event.thread)));
            let target = match Operation::decode(event) {
                Operation::Thread(ThreadOp::Join { thread }) => thread.known(),
                _ => None,
            };
            let target = target.and_then(|target| analysed.trace.threads.get(target.index()));
            let target = target.map(|target| target.id.clone());
            self.next.insert(before, NextOperation { event: *event, target });
        }
    }

    /// Adds the branches from a state: after `done` events, where the thread's run goes from `start` to
    /// `end`.
    fn branch_from(
        &mut self,
        branch: &Branch,
        analysed: &AnalysedRun<'_>,
        (start, done, end): (usize, usize, usize),
        (machine, pending_conflicts): (&Machine, &[PendingConflict]),
        next_level: &mut Vec<Branch>,
    ) {
        let trace = analysed.trace;
        let visit = Visit {
            thread: branch.thread.clone(),
            switches: branch.switches,
            preemptions: branch.preemptions,
            pending_conflicts: pending_conflicts.to_vec(),
        };
        let visits = self.visited.entry(analysed.fingerprints.states[done - 1]).or_default();
        if visits.iter().any(|earlier| earlier.is_no_worse_than(&visit)) {
            return;
        }
        visits.retain(|earlier| !visit.is_no_worse_than(earlier));
        visits.push(visit);
        let interrupted = (done < end).then(|| &trace.events[done]);
        let preempts = interrupted.is_some_and(|event| !event.op.yields() && !by_time(event));
        let preemptions = branch.preemptions + u64::from(preempts);
        if preemptions > self.bound.preemptions {
            return;
        }
        let mut schedule = branch.schedule.clone();
        schedule.push((branch.thread.clone(), (done - start) as u32));
        let mut all_pending_conflicts = pending_conflicts.to_vec();
        // This holds only if preemptions are not counted.
        if let Some(event) = interrupted.filter(|_| self.bound.preemptions == u64::MAX) {
            all_pending_conflicts.push(PendingConflict::new(
                branch.thread.clone(),
                event,
                &analysed.touches[done],
            ));
        }
        for thread in analysed.lifetimes.alive(done) {
            let waits = thread == branch.thread
                || all_pending_conflicts.iter().any(|pending_conflicts| pending_conflicts.thread == thread);
            if !waits && !self.is_known_to_wait(analysed, machine, done, &thread) {
                next_level.push(Branch {
                    schedule: schedule.clone(),
                    thread,
                    switches: branch.switches + 1,
                    preemptions,
                    pending_conflicts: all_pending_conflicts.clone(),
                });
            }
        }
    }

    /// Returns whether a thread's next operation is known, and is blocked in this state after `done` events.
    fn is_known_to_wait(
        &self,
        analysed: &AnalysedRun<'_>,
        machine: &Machine,
        done: usize,
        thread: &ThreadId,
    ) -> bool {
        let trace = analysed.trace;
        let own = trace.events[..done].iter().rposition(|event| trace.thread_id(event.thread) == thread);
        let local = own.map_or_else(|| unstarted(thread), |at| analysed.fingerprints.events[at]);
        let Some(NextOperation { event, target }) = self.next.get(&local) else { return false };
        let here = |thread: &ThreadId| trace.threads.iter().position(|t| t.id == *thread);
        let here = |thread: &ThreadId| here(thread).map(|ix| ThreadIx(ix as u16));
        let Some(thread) = here(thread) else { return false };
        // Threads have other numbers in other runs.
        let operation = match target {
            Some(target) => match here(target) {
                Some(target) => Operation::Thread(ThreadOp::Join { thread: target.into() }),
                None => return true,
            },
            None => Operation::decode(event),
        };
        let mut step: Step = machine.decode(event);
        (step.thread, step.operation) = (thread, operation);
        matches!(event.op, Op::Join | Op::Lock | Op::ReadLock | Op::WriteLock | Op::SemWait)
            && matches!(machine.enabled(&step), Enabled::No { .. })
    }
}

impl Visit {
    /// Returns whether everything that follows from the other visit follows from this one at no higher cost.
    fn is_no_worse_than(&self, other: &Self) -> bool {
        // The last thread may continue for free; continuing another thread takes a switch, which may be a
        // preemption.
        let more = u64::from(self.thread != other.thread);
        self.switches + more <= other.switches
            && self.preemptions + more <= other.preemptions
            && self
                .pending_conflicts
                .iter()
                .all(|pending_conflicts| other.pending_conflicts.contains(pending_conflicts))
    }
}

/// A run with its analysis.
struct AnalysedRun<'t> {
    trace: &'t Trace,
    fingerprints: Fingerprints,
    touches: Vec<Vec<Touch>>,
    lifetimes: Lifetimes<'t>,
}

impl<'t> AnalysedRun<'t> {
    fn of(trace: &'t Trace, rules: Rules) -> Self {
        let order: Vec<usize> = (0..trace.events.len()).collect();
        let mut relation = Relation::new(rules);
        let touches = trace.events.iter().map(|event| {
            let mut touches = Vec::new();
            relation.touches(event, &mut touches);
            touches
        });
        let touches = touches.collect();
        Self {
            trace,
            touches,
            fingerprints: fingerprints(trace, &order, rules),
            lifetimes: Lifetimes::of(trace),
        }
    }
}

/// Returns whether a thread could continue only because of a timeout, or spuriously.
fn by_time(event: &Event) -> bool {
    matches!(OpResult::of(event), OpResult::TimedOut | OpResult::Spurious | OpResult::Interrupted)
}

/// The lifetimes of a run's threads.
struct Lifetimes<'t> {
    trace: &'t Trace,
    /// By thread: the number of events before its creation and before its end.
    spans: Vec<(usize, usize)>,
}

impl<'t> Lifetimes<'t> {
    fn of(trace: &'t Trace) -> Self {
        let mut spans = vec![(0, usize::MAX); trace.threads.len()];
        for (at, event) in trace.events.iter().enumerate() {
            let created = match Operation::decode(event) {
                Operation::Thread(ThreadOp::Create { thread }) if succeeded(event) => thread.known(),
                _ => None,
            };
            if let Some((begin, _)) = created.and_then(|thread| spans.get_mut(thread.index()))
                && *begin == 0
            {
                *begin = at + 1;
            }
            if let Some((_, end)) = spans.get_mut(event.thread.index()).filter(|_| event.op == Op::End) {
                *end = (*end).min(at + 1);
            }
        }
        Self { trace, spans }
    }

    /// Returns the threads that are alive after this many events.
    fn alive(&self, done: usize) -> Vec<ThreadId> {
        let there = self.spans.iter().zip(&self.trace.threads);
        let there = there.filter(|((begin, end), _)| (*begin..*end).contains(&done));
        there.map(|(_, thread)| thread.id.clone()).collect()
    }
}

/// Returns the fingerprint of a thread without events.
fn unstarted(thread: &ThreadId) -> u64 {
    let mut hasher = DefaultHasher::new();
    thread.path().hash(&mut hasher);
    hasher.finish()
}
