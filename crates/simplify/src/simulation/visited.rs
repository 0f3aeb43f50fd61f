//! Runs that end up where others have been.
//!
//! The same threads picked in the same order make the same run: that is what makes a plan repeatable, and it holds
//! whatever threads do to each other, be it told by events or not. So the runs that were made are kept as a tree. A
//! plan is followed down the tree, by the picker that the runtime has, as long as it is known what that would be
//! shown: who can go on (runners tell, see [`Choice`]) and what those are about to do that it asks for. If that leads
//! to the end of a run, it is that run once more. Many changed schedules cannot be followed as they stand, and come
//! to the same.

use super::{EarlyStop, observations::consulted_unknown};
use crate::Choice;
use std::{
    cell::Cell,
    collections::{BTreeMap, HashMap},
};
use unsnarl_model::{Action, Op, Outcome, OutcomeKind, Plan, Policy, Prefix, ThreadIx, Trace};
use unsnarl_sched::{Pick, Picker, RunView, Script, ThreadSet};

/// Events of the runs that are kept, over all.
const MAX_EVENTS: usize = 200_000;

/// Longer runs are not kept: in them a thread may have run for so long that it was made to give way.
const LONGEST: usize = 10_000;

/// Threads whose choices are told.
const MAX_THREADS: usize = 64;

#[derive(Debug)]
pub(super) struct VisitedTree {
    /// What is the same in the plans of all runs.
    base: Plan,
    /// The first is where all runs begin.
    places: Vec<VisitedPlace>,
    runs: Vec<Trace>,
    events: usize,
}

/// Where a run was when somebody was picked.
#[derive(Debug, Default)]
struct VisitedPlace {
    /// A run that came by.
    run: usize,
    /// How many events it had by then.
    depth: usize,
    /// Who could go on, if that was told.
    choice: Option<Choice>,
    /// Who was picked, and where that led.
    steps: BTreeMap<ThreadIx, usize>,
    /// What threads are about to do.
    about: HashMap<ThreadIx, Action>,
    /// A run ended here.
    end: Option<usize>,
}

impl VisitedTree {
    /// For runs like this one.
    pub(super) fn new(trace: &Trace) -> Self {
        Self { base: base(&trace.plan), places: vec![VisitedPlace::default()], runs: Vec::new(), events: 0 }
    }

    /// One more run; `choices` tells who could go on before each of its events, or nothing.
    pub(super) fn learn(&mut self, trace: &Trace, choices: &[Choice]) {
        // How far time and patience go is not the schedule's doing.
        let undetermined = matches!(trace.outcome.kind, OutcomeKind::Livelock | OutcomeKind::Timeout);
        if undetermined
            || base(&trace.plan) != self.base
            || trace.threads.len() > MAX_THREADS
            || trace.events.len() > LONGEST
            || self.events + trace.events.len() > MAX_EVENTS
        {
            return;
        }
        self.events += trace.events.len();
        let run = self.runs.len();
        let mut upcoming = Upcoming::of(trace);
        let mut at = 0;
        for (depth, event) in trace.events.iter().enumerate() {
            let place = &mut self.places[at];
            if let Some(&choice) = choices.get(depth).filter(|choice| choice.can_run != 0) {
                place.choice = Some(choice);
            }
            place.about.extend(upcoming.before(trace, depth));
            upcoming.pass(depth, event.thread);
            let next = self.places.len();
            at = *self.places[at].steps.entry(event.thread).or_insert(next);
            if at == next {
                self.places.push(VisitedPlace { run, depth: depth + 1, ..VisitedPlace::default() });
            }
        }
        if ends_by_itself(trace) {
            self.places[at].end = Some(run);
        }
        self.runs.push(trace.clone());
    }

    /// The run that comes of a plan, if it is one that was made; with `early_stop`, perhaps only its beginning.
    pub(super) fn simulate(&self, plan: &Plan, early_stop: Option<EarlyStop>) -> Option<Trace> {
        let Prefix { segments, actions, fidelity, modules, .. } = &plan.prefix;
        let known = self.runs.first()?.modules.iter().map(|module| &module.path);
        if base(plan) != self.base || plan.tail != Policy::Fair || !known.eq(modules) || actions.is_empty() {
            return None;
        }
        let script = Script { segments: segments.clone(), actions: actions.clone() };
        let mut picker = Picker::new(script, *fidelity, plan.tail, plan.seed);
        let mut walk = TreeWalk {
            visited: self,
            plan,
            at: 0,
            current: ThreadIx::MAIN,
            ready: ThreadSet::new(),
            consulted_unknown: Cell::new(false),
            followed: Cell::new(None),
        };
        let mut switches = 0;
        loop {
            let place = &self.places[walk.at];
            if let Some(end) = place.end {
                return Some(Trace { plan: plan.clone(), ..self.runs[end].clone() });
            }
            let Some((thread, next)) = walk.step(&mut picker) else { break };
            switches += u64::from(thread != walk.current && place.depth > 0);
            (walk.current, walk.at) = (thread, next);
        }
        let VisitedPlace { run, depth, .. } = self.places[walk.at];
        early_stop.filter(|early_stop| switches > early_stop.switches && depth >= early_stop.events)?;
        let run = &self.runs[run];
        let events = run.events[..depth].to_vec();
        Some(Trace { plan: plan.clone(), events, outcome: Outcome::exit(0), ..run.clone() })
    }
}

/// A plan without its schedule.
fn base(plan: &Plan) -> Plan {
    Plan { prefix: Prefix::default(), tail: Policy::Fair, seed: 0, choices: false, ..plan.clone() }
}

/// Whether the run was over after its last event, whoever would have been picked.
fn ends_by_itself(trace: &Trace) -> bool {
    let Some(last) = trace.events.last() else { return false };
    match trace.outcome.kind {
        OutcomeKind::Deadlock => true,
        _ if trace.outcome.thread == Some(last.thread) => true,
        OutcomeKind::Exit(_) => {
            let ended = trace.events.iter().filter(|event| event.op == Op::End).count();
            last.op == Op::Exit || ended == trace.threads.len()
        }
        // Who died in the middle of something had to be picked for it.
        _ => false,
    }
}

/// What threads are about to do in the course of a run.
struct Upcoming {
    /// By thread: the number of its next event.
    threads: Vec<Option<usize>>,
    /// By event: the number of its thread's next one.
    after: Vec<Option<usize>>,
    /// Whether there are signals. One that is due comes before what a thread is about to do, and when it is due is not
    /// told but of who is picked.
    signals: bool,
}

impl Upcoming {
    fn of(trace: &Trace) -> Self {
        let mut after = vec![None; trace.events.len()];
        let mut threads: Vec<Option<usize>> = vec![None; trace.threads.len()];
        for (at, event) in trace.events.iter().enumerate().rev() {
            after[at] = threads[event.thread.index()].replace(at);
        }
        Self { threads, after, signals: trace.events.iter().any(|event| event.op.is_signalling()) }
    }

    /// What is known before this event.
    fn before<'t>(&'t self, trace: &'t Trace, event: usize) -> impl Iterator<Item = (ThreadIx, Action)> + 't {
        let next = self.threads.iter().flatten().filter(move |&&next| next == event || !self.signals);
        next.map(|&next| (trace.events[next].thread, trace.action(&trace.events[next])))
    }

    fn pass(&mut self, event: usize, thread: ThreadIx) {
        self.threads[thread.index()] = self.after[event];
    }
}

/// A plan on its way down the tree.
struct TreeWalk<'a> {
    visited: &'a VisitedTree,
    plan: &'a Plan,
    at: usize,
    current: ThreadIx,
    ready: ThreadSet,
    /// Something was asked that is not known.
    consulted_unknown: Cell<bool>,
    /// Of whom it was asked last what it is about to do: then the schedule is followed.
    followed: Cell<Option<ThreadIx>>,
}

impl TreeWalk<'_> {
    /// Who is picked, and where that leads; none if that is not known.
    fn step(&mut self, picker: &mut Picker) -> Option<(ThreadIx, usize)> {
        let place = &self.visited.places[self.at];
        // Where it was not told who can go on, whoever is asked about is looked at more closely.
        let can_run = place.choice.map_or(u64::MAX, |choice| choice.can_run);
        for thread in 0..MAX_THREADS {
            self.ready.set(ThreadIx(thread as u16), can_run >> thread & 1 == 1);
        }
        self.consulted_unknown.set(false);
        self.followed.set(None);
        let Pick::Run(thread) = picker.pick(self) else { return None };
        // Among those who give way, and nobody else, deadlines decide.
        let by_deadline = place
            .choice
            .is_some_and(|choice| choice.can_run == choice.yields && choice.can_run.count_ones() > 1);
        let next = place.steps.get(&thread).filter(|_| !self.consulted_unknown.get() && !by_deadline)?;
        Some((thread, *next))
    }

    fn place(&self) -> &VisitedPlace {
        &self.visited.places[self.at]
    }
}

impl RunView for TreeWalk<'_> {
    fn current(&self) -> ThreadIx {
        self.current
    }

    fn ready(&self) -> &ThreadSet {
        &self.ready
    }

    fn by_timeout(&self) -> &ThreadSet {
        const NO_THREADS: &ThreadSet = &ThreadSet::new();
        NO_THREADS
    }

    fn earliest_timeout(&self) -> Option<ThreadIx> {
        None
    }

    fn yields(&self, thread: ThreadIx) -> bool {
        let place = self.place();
        match place.choice {
            Some(choice) if choice.yields >> thread.0 & 1 == 1 => {
                // Or it can go on only because its time is up. Without a schedule that is the same.
                let is_known = place.about.get(&thread).is_some_and(|about| about.op.yields());
                self.consulted_unknown
                    .set(self.consulted_unknown.get() || self.followed.get() == Some(thread) && !is_known);
                true
            }
            Some(_) => false,
            None => {
                self.consulted_unknown.set(true);
                false
            }
        }
    }

    fn is_about_to(&self, thread: ThreadIx, action: &Action) -> bool {
        let place = self.place();
        self.followed.set(Some(thread));
        let is_ready = place.choice.is_some() || place.steps.contains_key(&thread);
        match place.about.get(&thread).filter(|_| is_ready) {
            Some(about) => {
                (consulted_unknown(about.op), about.site) == (consulted_unknown(action.op), action.site)
            }
            None => {
                self.consulted_unknown.set(true);
                false
            }
        }
    }

    fn conflict(&self, _: ThreadIx, _: ThreadIx) -> bool {
        self.consulted_unknown.set(true);
        false
    }

    fn resolve_thread(&self, in_plan: ThreadIx) -> Option<ThreadIx> {
        let id = self.plan.prefix.threads.get(in_plan.index())?;
        let threads = &self.visited.runs[self.place().run].threads;
        threads.iter().position(|thread| thread.id == *id).map(|ix| ThreadIx(ix as u16))
    }
}
