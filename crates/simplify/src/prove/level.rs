//! The search itself, level by level.

use super::{ProofLimits, owed::Owed};
use crate::{
    Cost, Runner,
    statics::{
        Rules,
        fingerprint::{Fingerprints, fingerprints},
        preemption::SyncState,
        relation::{Relation, Touch},
    },
};
use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash, Hasher},
};
use unsnarl_model::{
    Event, Fidelity, Flags, Op, Plan, Policy, Prefix, Segment, Signature, ThreadId, ThreadIx, Trace,
};

/// Events of runs that are held at a time.
const MOST_EVENTS: usize = 2_000_000;

/// What a schedule may cost.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bound {
    pub(super) switches: u64,
    pub(super) preemptions: u64,
}

/// What came of it.
pub(super) enum Found {
    Better(Box<Trace>),
    Nothing,
    OutOfBudget,
}

pub(super) struct Search<'a> {
    base: &'a Plan,
    /// Who is there at the start.
    first: Vec<ThreadId>,
    signature: Signature,
    cost: Cost,
    bound: Bound,
    limits: &'a ProofLimits,
    /// How many runs are made before they are looked at.
    batch: usize,
    rules: Rules,
    pub(super) executions: u64,
    pub(super) states: u64,
    /// Of all states, in whatever order they came.
    pub(super) digest: u64,
    pub(super) none_with_switches: Option<u64>,
    /// How states were reached: more cheaply is worth looking at again.
    visited: HashMap<u64, Vec<Visit>>,
    /// What a thread does next after having done what has this fingerprint.
    next: HashMap<u64, Next>,
}

/// A thread's next operation.
#[derive(Clone)]
struct Next {
    event: Event,
    /// Whose end it waits for.
    target: Option<ThreadId>,
}

/// How a state was reached.
struct Visit {
    thread: ThreadId,
    switches: u64,
    preemptions: u64,
    owed: Vec<Owed>,
}

/// A thread is to run as far as it can after a schedule was followed.
struct Branch {
    /// Who runs for how many points before that.
    schedule: Vec<(ThreadId, u32)>,
    thread: ThreadId,
    switches: u64,
    preemptions: u64,
    owed: Vec<Owed>,
}

impl Branch {
    /// The thread begins.
    const fn first(thread: ThreadId) -> Self {
        Self { schedule: Vec::new(), thread, switches: 0, preemptions: 0, owed: Vec::new() }
    }
}

impl<'a> Search<'a> {
    pub(super) fn new(trace: &'a Trace, bound: Bound, limits: &'a ProofLimits, executions: u64) -> Self {
        Self {
            base: &trace.plan,
            first: Lives::of(trace).alive(0),
            signature: trace.signature(),
            cost: Cost::of(&trace.events),
            bound,
            limits,
            batch: limits.batch.min(MOST_EVENTS / trace.events.len().max(1)).max(1),
            rules: Rules { end: false, ..Rules::of(trace) },
            executions,
            states: 0,
            digest: 0,
            none_with_switches: None,
            visited: HashMap::new(),
            next: HashMap::new(),
        }
    }

    pub(super) fn run<R: Runner>(
        &mut self,
        runner: &mut R,
        watch: &mut dyn FnMut(u64, u64),
    ) -> Result<Found, R::Error> {
        let mut level: Vec<Branch> = self.first.iter().map(|thread| Branch::first(thread.clone())).collect();
        for switches in 0..=self.bound.switches {
            let mut next_level = Vec::new();
            for batch in level.chunks(self.batch) {
                watch(self.executions, switches);
                let room = self.limits.executions.saturating_sub(self.executions);
                if room < batch.len() as u64 {
                    return Ok(Found::OutOfBudget);
                }
                let plans: Vec<Plan> = batch.iter().map(|branch| self.plan(branch)).collect();
                let traces = runner.run_until(&plans, &mut |_, trace| self.is_better(trace))?;
                self.executions += traces.len() as u64;
                for (branch, trace) in batch.iter().zip(traces) {
                    if self.is_better(&trace) {
                        return Ok(Found::Better(Box::new(trace)));
                    }
                    self.look(branch, &trace, runner, &mut next_level)?;
                }
            }
            self.none_with_switches = Some(switches);
            level = next_level;
            if level.is_empty() {
                self.none_with_switches = Some(self.bound.switches);
                break;
            }
        }
        Ok(Found::Nothing)
    }

    fn is_better(&self, trace: &Trace) -> bool {
        Cost::of(&trace.events) < self.cost && trace.signature() == self.signature
    }

    /// The plan that follows the branch's schedule, has its thread run as far as it can, and goes on somehow.
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

    /// Goes through the states that the branch's thread came by, and adds where one can go from there.
    fn look<R: Runner>(
        &mut self,
        branch: &Branch,
        trace: &Trace,
        runner: &R,
        next_level: &mut Vec<Branch>,
    ) -> Result<(), R::Error> {
        runner.go_on()?;
        let story = Story::of(trace, self.rules);
        self.learn(&story);
        let start: usize = branch.schedule.iter().map(|(_, points)| *points as usize).sum();
        let is_own = |event: &Event| *trace.thread_id(event.thread) == branch.thread;
        let run =
            trace.events.iter().skip(start).take(self.limits.in_a_row as usize).take_while(|e| is_own(e));
        let end = start + run.count();
        let mut owed = branch.owed.clone();
        let mut idle: HashMap<_, u32> = HashMap::new();
        for done in start + 1..=end {
            let touches = &story.touches[done - 1];
            owed.retain(|owed| !owed.is_settled_by(&branch.thread, touches));
            let event = &trace.events[done - 1];
            if event.op.only_reads() || event.op.yields() {
                let rounds = idle.entry((event.site, event.addr, event.value)).or_default();
                *rounds += 1;
                if *rounds > self.limits.rounds {
                    continue;
                }
            } else {
                idle.clear();
            }
            if branch.switches < self.bound.switches {
                runner.go_on()?;
                self.go_on_from(branch, &story, (start, done, end), &owed, next_level);
            }
            self.states += 1;
            self.digest =
                self.digest.wrapping_add(story.prints.states[done - 1].rotate_left(branch.switches as u32));
        }
        Ok(())
    }

    /// What each thread does next, for when it is known that it could not.
    fn learn(&mut self, story: &Story<'_>) {
        let mut latest: HashMap<ThreadIx, u64> = HashMap::new();
        for (at, event) in story.trace.events.iter().enumerate() {
            let before = latest.insert(event.thread, story.prints.events[at]);
            let before = before.unwrap_or_else(|| unborn(story.trace.thread_id(event.thread)));
            let target = story.trace.threads.get(event.value as usize).filter(|_| event.op == Op::Join);
            self.next.insert(before, Next { event: *event, target: target.map(|target| target.id.clone()) });
        }
    }

    /// Adds the branches from a state: after `done` events, where the thread's run goes from `start` to `end`.
    fn go_on_from(
        &mut self,
        branch: &Branch,
        story: &Story<'_>,
        (start, done, end): (usize, usize, usize),
        owed: &[Owed],
        next_level: &mut Vec<Branch>,
    ) {
        let trace = story.trace;
        let visit = Visit {
            thread: branch.thread.clone(),
            switches: branch.switches,
            preemptions: branch.preemptions,
            owed: owed.to_vec(),
        };
        let visits = self.visited.entry(story.prints.states[done - 1]).or_default();
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
        let mut all_owed = owed.to_vec();
        // Only where switches are all that counts.
        if let Some(event) = interrupted.filter(|_| self.bound.preemptions == u64::MAX) {
            all_owed.push(Owed::new(branch.thread.clone(), event, &story.touches[done]));
        }
        for thread in story.lives.alive(done) {
            let waits = thread == branch.thread || all_owed.iter().any(|owed| owed.thread == thread);
            if !waits && !self.is_known_to_wait(story, done, &thread) {
                next_level.push(Branch {
                    schedule: schedule.clone(),
                    thread,
                    switches: branch.switches + 1,
                    preemptions,
                    owed: all_owed.clone(),
                });
            }
        }
    }

    /// Whether a thread's next operation is known, and is not possible after so many events.
    fn is_known_to_wait(&self, story: &Story<'_>, done: usize, thread: &ThreadId) -> bool {
        let trace = story.trace;
        let events = &trace.events[..done];
        let own = events.iter().rposition(|event| trace.thread_id(event.thread) == thread);
        let local = own.map_or_else(|| unborn(thread), |at| story.prints.events[at]);
        let Some(next) = self.next.get(&local) else { return false };
        let Next { event: next, target } = next;
        let failed = next.flags.has(Flags::FAILED) || next.flags.has(Flags::TIMED_OUT);
        match next.op {
            Op::Join if !failed => {
                let ended = |event: &Event| {
                    event.op == Op::End && Some(trace.thread_id(event.thread)) == target.as_ref()
                };
                target.is_some() && !events.iter().any(ended)
            }
            Op::Lock | Op::ReadLock | Op::WriteLock | Op::SemWait if !failed => {
                let mut world = SyncState::before(&trace.events);
                events.iter().for_each(|event| world.step(event));
                let own = trace.threads.iter().position(|t| t.id == *thread).unwrap_or(usize::MAX);
                !world.lets(&Event { thread: ThreadIx(own as u16), ..*next })
            }
            _ => false,
        }
    }
}

impl Visit {
    /// Whether everything that follows from the other follows from this one at no higher cost.
    fn is_no_worse_than(&self, other: &Self) -> bool {
        // Who ran last may go on for nothing; for another thread to go on takes a switch, and may be a preemption.
        let more = u64::from(self.thread != other.thread);
        self.switches + more <= other.switches
            && self.preemptions + more <= other.preemptions
            && self.owed.iter().all(|owed| other.owed.contains(owed))
    }
}

/// A run, and what its events mean.
struct Story<'t> {
    trace: &'t Trace,
    prints: Fingerprints,
    touches: Vec<Vec<Touch>>,
    lives: Lives<'t>,
}

impl<'t> Story<'t> {
    fn of(trace: &'t Trace, rules: Rules) -> Self {
        let order: Vec<usize> = (0..trace.events.len()).collect();
        let mut relation = Relation::new(rules);
        let touches = trace.events.iter().map(|event| {
            let mut touches = Vec::new();
            relation.touches(event, &mut touches);
            touches
        });
        let touches = touches.collect();
        Self { trace, touches, prints: fingerprints(trace, &order, rules), lives: Lives::of(trace) }
    }
}

/// Whether a thread could go on only because time passed, or for no reason.
fn by_time(event: &Event) -> bool {
    event.flags.has(Flags::TIMED_OUT) || event.flags.has(Flags::SPURIOUS)
}

/// From where to where in a run its threads live.
struct Lives<'t> {
    trace: &'t Trace,
    /// By thread: after how many events it is there, and after how many no more.
    spans: Vec<(usize, usize)>,
}

impl<'t> Lives<'t> {
    fn of(trace: &'t Trace) -> Self {
        let mut spans = vec![(0, usize::MAX); trace.threads.len()];
        for (at, event) in trace.events.iter().enumerate() {
            let created = (event.op == Op::Create && !event.flags.has(Flags::FAILED)).then_some(event.value);
            if let Some((begin, _)) = created.and_then(|ix| spans.get_mut(ix as usize))
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

    /// Who was created and has not ended after so many events.
    fn alive(&self, done: usize) -> Vec<ThreadId> {
        let there = self.spans.iter().zip(&self.trace.threads);
        let there = there.filter(|((begin, end), _)| (*begin..*end).contains(&done));
        there.map(|(_, thread)| thread.id.clone()).collect()
    }
}

/// The fingerprint of a thread that has done nothing yet.
fn unborn(thread: &ThreadId) -> u64 {
    let mut hasher = DefaultHasher::new();
    thread.path().hash(&mut hasher);
    hasher.finish()
}
