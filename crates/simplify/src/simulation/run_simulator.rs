//! A run by a plan, told step by step.
//!
//! This follows the runtime's schedule point (`turn.rs` there): a thread comes to its next operation, the picker
//! says who goes on, that one does what it is about to do. Wherever that is not known, the telling ends with nothing.

use super::{
    EarlyStop, MAX_EVENTS,
    observations::{
        CIRCLE, Continuation, NO_RUNNABLE_THREAD, NextOperation, Observations, blocked_fingerprint,
    },
    state::{LARGE, Once, SimulatedState, UpcomingOperation},
};
use std::cell::Cell;
use unsnarl_model::{Action, Event, Flags, Op, Outcome, Output, Plan, Policy, Site, Thread, ThreadIx, Trace};
use unsnarl_sched::{Pick, Picker, RunView, Script, SpinDetector, ThreadSet, changes_nothing};

pub(super) struct RunSimulator<'a> {
    observations: &'a Observations,
    plan: &'a Plan,
    early_stop: Option<EarlyStop>,
    state: SimulatedState<'a>,
    threads: Vec<SimulatedThread<'a>>,
    current: ThreadIx,
    ready: ThreadSet,
    by_timeout: ThreadSet,
    /// Those of whom it is not known whether they can go on.
    undetermined: Vec<ThreadIx>,
    /// Something was asked that is not known.
    consulted_unknown: Cell<bool>,
    events: Vec<Event>,
    switches: u64,
}

/// A thread of the run that is told.
#[derive(Default)]
struct SimulatedThread<'a> {
    /// What it does next; none if that is not known, or it ended.
    next: Option<&'a NextOperation>,
    /// It had to wait when it came there.
    blocked: bool,
    idle: SpinDetector,
    /// What it did of late, perhaps in vain, and how often; and whether it is not known of some whether they were.
    recent: Vec<((Site, u64), u32)>,
    spin_undetermined: bool,
}

/// So often something must be done in vain to count as spinning.
const SPINS: u32 = 8;

/// Whether a thread can go on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Readiness {
    Ready,
    /// By time passing.
    ByTimeout,
    Blocked,
    Unknown,
}

impl Readiness {
    const fn if_open(open: bool, next: &NextOperation) -> Self {
        match open {
            true => Self::Ready,
            // It may have a deadline.
            false if next.flags.has(Flags::UNDETERMINED) => Self::Unknown,
            false => Self::Blocked,
        }
    }
}

/// Whether the outside has a say in what comes of it.
const fn depends_on_environment(op: Op) -> bool {
    matches!(
        op,
        Op::FdOpen
            | Op::FdClose
            | Op::FdRead
            | Op::FdWrite
            | Op::FdWait
            | Op::FdAccept
            | Op::FdConnect
            | Op::FileLock
            | Op::ChildStart
            | Op::ChildWait
    )
}

/// How a step goes.
enum StepResult {
    Goes,
    Ends(Outcome),
    Unknown,
}

impl<'a> RunSimulator<'a> {
    pub(super) fn new(observations: &'a Observations, plan: &'a Plan, early_stop: Option<EarlyStop>) -> Self {
        let state =
            SimulatedState::new(&observations.first, &observations.known, observations.sees_all_accesses);
        let threads = state.threads.iter().map(|_| SimulatedThread::default()).collect();
        Self {
            observations,
            plan,
            early_stop,
            state,
            threads,
            current: ThreadIx::MAIN,
            ready: ThreadSet::new(),
            by_timeout: ThreadSet::new(),
            undetermined: Vec::new(),
            consulted_unknown: Cell::new(false),
            events: Vec::new(),
            switches: 0,
        }
    }

    /// The run, if all of it is known.
    pub(super) fn simulate(mut self) -> Option<Trace> {
        let base = &self.observations.template.plan;
        let Plan { points, places, one_in, spurious, from_checkpoint, .. } = self.plan;
        if (points, places, one_in, spurious, from_checkpoint)
            != (&base.points, &base.places, &base.one_in, &base.spurious, &base.from_checkpoint)
            || (!self.plan.prefix.actions.is_empty() && self.plan.prefix.modules != self.observations.modules)
        {
            return None;
        }
        let prefix = &self.plan.prefix;
        let script = Script { segments: prefix.segments.clone(), actions: prefix.actions.clone() };
        let mut picker = Picker::new(script, prefix.fidelity, self.plan.tail, self.plan.seed);
        for thread in (0..self.threads.len()).rev() {
            if let StepResult::Ends(_) | StepResult::Unknown = self.arrive(thread) {
                return None;
            }
        }
        let most = (4 * self.observations.longest + 1000).min(MAX_EVENTS);
        let outcome = loop {
            match self.step(&mut picker) {
                StepResult::Goes if self.events.len() < most => {}
                StepResult::Ends(outcome) => break outcome,
                StepResult::Goes | StepResult::Unknown => {
                    let early_stop =
                        |e: EarlyStop| self.switches > e.switches && self.events.len() >= e.events;
                    if !self.early_stop.is_some_and(early_stop) {
                        return None;
                    }
                    break Outcome::exit(0);
                }
            }
        };
        Some(self.trace(outcome))
    }

    fn trace(self, outcome: Outcome) -> Trace {
        let threads = self.state.threads.iter().map(|local| {
            let known = self.observations.threads.get(local.id.path()).cloned();
            known.unwrap_or_else(|| Thread { id: local.id.clone(), ..Thread::default() })
        });
        Trace {
            plan: self.plan.clone(),
            threads: threads.collect(),
            sites: self.observations.sites.clone(),
            events: self.events,
            outcome,
            warnings: Vec::new(),
            races: Vec::new(),
            output: Output::default(),
            ..self.observations.template.clone()
        }
    }

    /// Somebody is picked and does something.
    fn step(&mut self, picker: &mut Picker) -> StepResult {
        self.classify();
        if self.ready.is_empty() && self.by_timeout.is_empty() && self.undetermined.is_empty() {
            return self.end_without_runnable_thread(NO_RUNNABLE_THREAD);
        }
        let Some(thread) = self.pick(picker) else { return StepResult::Unknown };
        let (from, me) = (self.current, thread.index());
        let leaves = thread != from && self.ready.contains(from);
        let yields = self.threads[from.index()].next.is_none_or(|next| next.op.yields());
        let by_timeout = self.by_timeout.contains(thread);
        let Some(next) = self.threads[me].next else { return StepResult::Unknown };
        let Some(mut event) = self.happens(thread, next, by_timeout) else { return StepResult::Unknown };
        if leaves && !yields {
            event.flags = event.flags | Flags::PREEMPTS;
        }
        if self.threads[me].blocked {
            event.flags = event.flags | Flags::BLOCKED;
        }
        self.switches += u64::from(thread != from && !self.events.is_empty());
        self.note_idle(&event);
        self.current = thread;
        self.state.apply(&event, next.site);
        self.events.push(event);
        if self.state.is_sole_runner(thread) {
            self.observations.follow(&mut self.state, thread);
        }
        let created = self.state.threads.len() > self.threads.len();
        if created {
            self.threads.push(SimulatedThread::default());
            if let StepResult::Ends(_) | StepResult::Unknown = self.arrive(self.threads.len() - 1) {
                return StepResult::Unknown;
            }
        }
        if event.op == Op::End {
            self.threads[me].next = None;
            return StepResult::Goes;
        }
        self.arrive(me)
    }

    /// A thread comes to its next operation, or the run ends.
    fn arrive(&mut self, thread: usize) -> StepResult {
        self.threads[thread].next = None;
        self.threads[thread].blocked = false;
        let past = self.state.threads[thread].past;
        let is_new = self.state.threads[thread].is_new();
        let unseen = if is_new { UpcomingOperation::Other } else { UpcomingOperation::Unknown };
        self.state.threads[thread].about = self.observations.about(past).unwrap_or(unseen);
        match self.observations.continuations.get(&past) {
            // Who was just created has not begun; of others it is not even known whether they live.
            None if is_new => StepResult::Goes,
            None => StepResult::Unknown,
            // If it is about to wait for a lock, that may close a circle here where it did not before.
            Some(Continuation::Lives) if self.is_perhaps_awaited(thread) => StepResult::Unknown,
            Some(Continuation::Lives) => StepResult::Goes,
            Some(Continuation::Ends(end)) => StepResult::Ends(end.outcome(&self.state)),
            Some(Continuation::EndsSomehow) => match self.observations.ends.get(&self.state.fingerprint()) {
                Some(end) => StepResult::Ends(end.outcome(&self.state)),
                None => StepResult::Unknown,
            },
            Some(Continuation::Operation(next)) => {
                self.threads[thread].next = Some(next);
                match self.readiness(thread) {
                    Readiness::Blocked => {
                        self.threads[thread].blocked = true;
                        self.look_for_circle(thread)
                    }
                    Readiness::ByTimeout => {
                        self.threads[thread].blocked = true;
                        StepResult::Goes
                    }
                    Readiness::Ready => StepResult::Goes,
                    // Whether it blocks is told by its event.
                    Readiness::Unknown => StepResult::Unknown,
                }
            }
        }
    }

    fn classify(&mut self) {
        self.undetermined.clear();
        for thread in 0..self.threads.len() {
            let readiness =
                if self.state.threads[thread].ended { Readiness::Blocked } else { self.readiness(thread) };
            let ix = ThreadIx(thread as u16);
            self.ready.set(ix, readiness == Readiness::Ready);
            self.by_timeout.set(ix, readiness == Readiness::ByTimeout);
            if readiness == Readiness::Unknown {
                self.undetermined.push(ix);
            }
        }
    }

    /// Who goes on, if it does not hang on what is not known.
    fn pick(&mut self, picker: &mut Picker) -> Option<ThreadIx> {
        let simulated = self.threads[self.current.index()].next;
        // In a region of its own nobody else is let in. Of an atomic operation the same bit says something else.
        let is_region = |next: &NextOperation| {
            next.flags.has(Flags::UNDETERMINED) && next.op != Op::Sleep && !next.op.is_atomic()
        };
        if simulated.is_some_and(|next| is_region(next) && !self.is_settled(next)) {
            return None;
        }
        // A policy that draws lots counts who is ready.
        if !self.undetermined.is_empty() && !matches!(self.plan.tail, Policy::Fair | Policy::Stop) {
            return None;
        }
        // Whoever looks at one that may be ready, or may not, asks about it; or picks it.
        self.consulted_unknown.set(false);
        for at in 0..self.undetermined.len() {
            self.ready.set(self.undetermined[at], true);
        }
        let pick = picker.pick(self);
        for at in 0..self.undetermined.len() {
            self.ready.set(self.undetermined[at], false);
        }
        match pick {
            Pick::Run(thread) if !self.consulted_unknown.get() && !self.undetermined.contains(&thread) => {
                Some(thread)
            }
            _ => None,
        }
    }

    /// Whether a thread can go on.
    fn readiness(&self, thread: usize) -> Readiness {
        let state = &self.state;
        let Some(next) = self.threads[thread].next else { return Readiness::Unknown };
        let addr = next.addr;
        if state.is_odd(addr) && !next.op.is_init() && next.op != Op::BarrierLeave {
            return Readiness::Unknown;
        }
        if self.is_settled(next) {
            return Readiness::Ready;
        }
        // Who gets a signal, and when, is not foreseen.
        if next.op.is_signalling() || next.flags.has(Flags::INTERRUPTED) {
            return Readiness::Unknown;
        }
        let open = match next.op {
            Op::Lock if state.is_destroyed(addr) => true,
            Op::Lock => match state.holder(addr) {
                None => true,
                Some((holder, _)) if holder != thread => false,
                // What kind of mutex it is shows only by what came of this.
                Some(_) if next.only_waited => false,
                Some(_) if next.value > 1 => true,
                Some(_) => return Readiness::Unknown,
            },
            Op::ReadLock => match state.writer(addr) {
                Some(_) => false,
                // Some locks let writers go first.
                None if self.is_awaited_by_writers(addr) => return Readiness::Unknown,
                None => true,
            },
            Op::WriteLock => state.writer(addr).is_none() && state.readers(addr) == 0,
            Op::CondWake | Op::FutexWoken => {
                let Some(waits) = &state.threads[thread].waits else { return Readiness::Unknown };
                if waits.mutex.is_some_and(|mutex| state.is_odd(mutex)) {
                    return Readiness::Unknown;
                }
                // Whatever ends the wait, the mutex must be had again.
                if waits.mutex.is_some_and(|mutex| state.holder(mutex).is_some()) {
                    return Readiness::Blocked;
                }
                state.is_woken(waits)
            }
            Op::SemWait => match state.count(addr) {
                Some(count) => count > 0,
                None => return Readiness::Unknown,
            },
            Op::BarrierLeave => state.is_over(addr, state.threads[thread].round),
            Op::OncePass => match state.once(addr) {
                Some(once) => once != Once::Running,
                None => return Readiness::Unknown,
            },
            Op::Join if next.flags.has(Flags::FAILED) => true,
            Op::Join => {
                let target = next.target.as_ref().and_then(|id| state.resolve_thread(id));
                match target {
                    Some(target) => state.threads[target.index()].ended,
                    None => return Readiness::Unknown,
                }
            }
            Op::Sleep => return Readiness::ByTimeout,
            Op::Cancel | Op::Cancelled => return Readiness::Unknown,
            op if depends_on_environment(op) => return Readiness::Unknown,
            _ => true,
        };
        Readiness::if_open(open, next)
    }

    /// Whether it is known what comes of an operation that the outside, or a signal, has a say in. Before there is a second
    /// thread nobody has a choice, and runs by plans that take from the trace what came from outside are all the same. So
    /// does Rust's library look at its descriptors, and say what becomes of signals, before main.
    fn is_settled(&self, next: &NextOperation) -> bool {
        let in_wait = next.flags.has(Flags::INTERRUPTED) || next.only_waited || next.dies;
        self.state.threads.len() == 1
            && !in_wait
            && (depends_on_environment(next.op) || next.op == Op::SigAction)
    }

    fn is_awaited_by_writers(&self, lock: u64) -> bool {
        let waits = |next: &NextOperation| next.op == Op::WriteLock && next.addr == lock;
        self.threads.iter().any(|thread| thread.next.is_none_or(waits))
    }

    /// Whether another thread is about to take a mutex, if that is known of all.
    fn is_awaited(&self, me: usize, mutex: u64) -> Option<bool> {
        let mut awaited = false;
        for (ix, local) in
            self.state.threads.iter().enumerate().filter(|(ix, local)| *ix != me && !local.ended)
        {
            let next = self.threads[ix].next?;
            awaited |= next.op == Op::Lock && next.addr == mutex;
            awaited |= local.waits.as_ref().is_some_and(|waits| waits.mutex == Some(mutex));
        }
        Some(awaited)
    }

    /// Whether others may wait for a lock that the thread holds.
    fn is_perhaps_awaited(&self, thread: usize) -> bool {
        let state = &self.state;
        let others = (0..self.threads.len()).filter(|&ix| ix != thread && !state.threads[ix].ended);
        state.holds_locks(thread)
            && others.filter(|&ix| !state.threads[ix].is_new()).any(|ix| {
                self.threads[ix].next.is_none_or(|next| match next.op {
                    Op::Lock => state.holder(next.addr).is_some_and(|(holder, _)| holder == thread),
                    Op::ReadLock | Op::WriteLock => state.writer(next.addr) == Some(thread),
                    _ => false,
                })
            })
    }

    /// If a thread that has to wait closes a circle of threads that hold what the next one waits for, the run ends.
    fn look_for_circle(&self, thread: usize) -> StepResult {
        let mut at = thread;
        for _ in 0..self.threads.len() {
            let Some(next) = self.threads[at].next else { return StepResult::Unknown };
            let holder = match next.op {
                Op::Lock => self.state.holder(next.addr).map(|(holder, _)| holder),
                Op::ReadLock | Op::WriteLock => self.state.writer(next.addr),
                _ => return StepResult::Goes,
            };
            match self.readiness(at) {
                Readiness::Blocked => {}
                Readiness::Unknown => return StepResult::Unknown,
                _ => return StepResult::Goes,
            }
            match holder {
                Some(holder) if holder == thread => return self.end_without_runnable_thread(CIRCLE),
                Some(holder) if !self.state.threads[holder].ended => at = holder,
                _ => return StepResult::Goes,
            }
        }
        StepResult::Goes
    }

    /// The run ends because some cannot go on.
    fn end_without_runnable_thread(&self, message: &str) -> StepResult {
        let left = || (0..self.threads.len()).filter(|&ix| !self.state.threads[ix].ended);
        if left().any(|ix| self.readiness(ix) == Readiness::Unknown) {
            return StepResult::Unknown;
        }
        let message = if left().next().is_none() { "" } else { message };
        let waits = |ix: usize| self.readiness(ix) != Readiness::Ready;
        match self.observations.ends.get(&blocked_fingerprint(&self.state, &waits, message)) {
            Some(end) => StepResult::Ends(end.outcome(&self.state)),
            None => StepResult::Unknown,
        }
    }

    /// The event of a thread that goes on; none if it is not known what comes of it.
    fn happens(&self, thread: ThreadIx, next: &NextOperation, by_timeout: bool) -> Option<Event> {
        let site = *self.observations.site_of.get(&next.site)?;
        let state = &self.state;
        let me = thread.index();
        let past = state.threads[me].past;
        let own = Flags(next.flags.0 & (Flags::OWN_STACK | Flags::UNDETERMINED).0);
        let mut event = Event {
            thread,
            op: next.op,
            flags: own,
            order: next.order,
            site,
            size: next.size,
            addr: next.addr,
            value: 0,
        };
        let waits = matches!(
            next.op,
            Op::Lock | Op::CondWake | Op::FutexWoken | Op::SemWait | Op::BarrierLeave | Op::Join
        );
        if next.only_waited && !waits || next.size > LARGE {
            return None;
        }
        if self.is_settled(next) {
            let flags = Flags(next.flags.0 & !(Flags::PREEMPTS | Flags::BLOCKED).0);
            return Some(Event { flags, value: next.value, ..event });
        }
        let unusual = Flags::FAILED.0 | Flags::CANCELLED.0 | Flags::SPURIOUS.0;
        if next.dies && next.op == Op::Free && !state.is_freed(next.addr) {
            return None;
        }
        if next.dies {
            event.flags = event.flags | Flags::FAILED;
            return Some(event);
        }
        let simulated = |value| Some(Event { value, ..event });
        let tried = |done: bool| Event {
            flags: if done { event.flags } else { event.flags | Flags::FAILED },
            value: done.into(),
            ..event
        };
        let results = || {
            let Some(results) = self.observations.results(state, past, &event) else {
                // It was seen to find what it wants; here it finds that, or something else.
                let (expected_values, left) = *self
                    .observations
                    .expected_values
                    .get(&past)
                    .filter(|_| self.observations.sees_all_accesses)?;
                let size = if event.op == Op::FutexWait { 4 } else { event.size };
                let found = state.memory.value(event.addr, size)?;
                let failed = Event { flags: event.flags | Flags::FAILED, value: found, ..event };
                return Some(if found == expected_values { Event { value: left, ..event } } else { failed });
            };
            let results = results?;
            let flags = event.flags | results.flags;
            Some(Event { flags, addr: results.addr, size: results.size, value: results.value, ..event })
        };
        match next.op {
            Op::Read | Op::Write | Op::Alloc | Op::Free => self.observations.access(state, &event),
            Op::AtomicLoad if !state.reveals_value(&event) => Some(event),
            Op::AtomicLoad => simulated(self.observations.value(state, past, &event)?),
            Op::AtomicRmw | Op::AtomicCas if next.size > 8 => None,
            Op::AtomicRmw | Op::AtomicCas | Op::FutexWait | Op::FutexWake => results(),
            Op::Lock | Op::TryLock if state.is_destroyed(next.addr) => Some(tried(false)),
            Op::TryLock => match state.holder(next.addr) {
                Some((holder, _)) if holder == me => None,
                holder => Some(tried(holder.is_none())),
            },
            Op::TryWriteLock => {
                let free = state.writer(next.addr).is_none() && state.readers(next.addr) == 0;
                Some(Event { value: 0, ..tried(free) })
            }
            Op::SemTryWait => match state.count(next.addr)? {
                0 => Some(tried(false)),
                count => simulated(count - 1),
            },
            Op::SemWait => simulated(state.count(next.addr)?.checked_sub(1)?),
            Op::SemPost if next.flags.0 & unusual == 0 => simulated(state.count(next.addr)? + 1),
            Op::SemGet => simulated(state.count(next.addr)?),
            Op::Lock => simulated(state.holder(next.addr).map_or(1, |(_, depth)| u64::from(depth) + 1)),
            Op::Unlock => match state.holder(next.addr) {
                Some((holder, depth)) if holder == me => simulated(u64::from(depth) - 1),
                _ => None,
            },
            Op::CondWait => match state.holder(next.value) {
                Some((holder, 1)) if holder == me => simulated(next.value),
                _ => None,
            },
            Op::CondWake | Op::FutexWoken => simulated(state.waker(state.threads[me].waits.as_ref()?)?),
            Op::Signal => {
                let (unserved, is_pending) = state.unserved(next.addr);
                simulated((unserved > is_pending).into())
            }
            Op::Broadcast => simulated(state.unserved(next.addr).0),
            Op::RwUnlock => match state.writer(next.addr) {
                Some(writer) if writer == me => simulated(1),
                None if state.readers(next.addr) > 0 => simulated(0),
                _ => None,
            },
            Op::BarrierArrive => simulated(state.arrival(next.addr)?.0),
            Op::BarrierLeave => simulated(state.threads[me].round),
            Op::OncePass => {
                let op = if state.once(next.addr)? == Once::Done { Op::OncePass } else { Op::OnceBegin };
                Some(Event { op, ..event })
            }
            Op::Create if next.flags.0 & unusual == 0 => simulated(state.threads.len() as u64),
            Op::Join if next.flags.0 & unusual == 0 => {
                simulated(next.target.as_ref().and_then(|id| state.resolve_thread(id))?.0.into())
            }
            Op::Sleep if by_timeout => {
                Some(Event { flags: event.flags | Flags(next.flags.0 & Flags::TIMED_OUT.0), ..event })
            }
            Op::LockDestroy if state.is_destroyed(next.addr) => Some(tried(false)),
            Op::LockDestroy => {
                let held = state.holder(next.addr).is_some();
                let awaited = self.is_awaited(me, next.addr)?;
                Some(Event { value: 0, ..tried(!held && !awaited) })
            }
            Op::RwDestroy | Op::CondDestroy | Op::SemDestroy | Op::BarrierDestroy => {
                let users = self
                    .threads
                    .iter()
                    .any(|t| t.next.is_none_or(|n| n.addr == next.addr && n.op != next.op));
                let held = state.holder(next.addr).is_some()
                    || state.writer(next.addr).is_some()
                    || state.readers(next.addr) > 0;
                (next.flags.0 & unusual == 0 && !users && !held)
                    .then_some(Event { value: next.value, ..event })
            }
            Op::ReadLock
            | Op::WriteLock
            | Op::AtomicStore
            | Op::OnceEnd
            | Op::Start
            | Op::End
            | Op::Exit
            | Op::Detach
            | Op::LockInit
            | Op::RwInit
            | Op::CondInit
            | Op::SemInit
            | Op::BarrierInit
            | Op::Fence
            | Op::Yield
            | Op::Point
            | Op::Checkpoint
                if next.flags.0 & unusual == 0 =>
            {
                simulated(next.value)
            }
            _ => None,
        }
    }

    fn note_idle(&mut self, event: &Event) {
        if event.op == Op::Point {
            return;
        }
        let me = event.thread.index();
        let changes = matches!(event.op, Op::AtomicStore | Op::AtomicRmw | Op::AtomicCas);
        let before =
            changes.then(|| self.observations.value(&self.state, self.state.threads[me].past, event));
        let nothing = changes_nothing(event.op, event.flags);
        let unchanged = before.flatten() == Some(event.value) && changes;
        let undetermined_value = event.flags.has(Flags::OWN_STACK) || event.size > 8;
        let spin_undetermined = !nothing && before == Some(None) || nothing && undetermined_value;
        let simulated_thread = &mut self.threads[me];
        let idle = nothing || unchanged;
        let place = self.observations.sites.get(event.site.index()).copied().unwrap_or_default();
        simulated_thread
            .idle
            .note(idle, (place.offset ^ u64::from(place.module.0) << 48, event.addr, event.value));
        if idle || spin_undetermined {
            let operation = (place, event.addr);
            match simulated_thread.recent.iter_mut().find(|(known, _)| *known == operation) {
                Some((_, times)) => *times += 1,
                None => simulated_thread.recent.push((operation, 1)),
            }
            simulated_thread.spin_undetermined |= spin_undetermined;
        } else {
            simulated_thread.recent.clear();
            simulated_thread.spin_undetermined = false;
        }
    }
}

impl RunView for RunSimulator<'_> {
    fn current(&self) -> ThreadIx {
        self.current
    }

    fn ready(&self) -> &ThreadSet {
        &self.ready
    }

    fn by_timeout(&self) -> &ThreadSet {
        &self.by_timeout
    }

    fn earliest_timeout(&self) -> Option<ThreadIx> {
        if self.by_timeout.len() > 1 {
            self.consulted_unknown.set(true);
        }
        self.by_timeout.nth(0)
    }

    fn yields(&self, thread: ThreadIx) -> bool {
        let simulated_thread = &self.threads[thread.index()];
        let perhaps = simulated_thread.spin_undetermined
            && simulated_thread.recent.iter().any(|(_, times)| *times >= SPINS);
        if self.undetermined.contains(&thread) || perhaps {
            self.consulted_unknown.set(true);
        }
        simulated_thread.next.is_some_and(|next| next.op.yields()) || simulated_thread.idle.is_spinning()
    }

    fn is_about_to(&self, thread: ThreadIx, action: &Action) -> bool {
        if self.undetermined.contains(&thread) {
            self.consulted_unknown.set(true);
        }
        let consulted_unknown = if action.op == Op::OnceBegin { Op::OncePass } else { action.op };
        self.threads[thread.index()]
            .next
            .is_some_and(|next| next.op == consulted_unknown && next.site == action.site)
    }

    fn conflict(&self, _: ThreadIx, _: ThreadIx) -> bool {
        self.consulted_unknown.set(true);
        false
    }

    fn is_at(&self, _: ThreadIx, _: u16) -> bool {
        self.consulted_unknown.set(true);
        false
    }

    fn resolve_thread(&self, in_plan: ThreadIx) -> Option<ThreadIx> {
        self.state.resolve_thread(self.plan.prefix.threads.get(in_plan.index())?)
    }
}
