//! Builds the model of a window from its events.

use super::{
    CellTouch, INITIAL, Model, ModelStep, NONE, ReadRule, SignalledWait, StepAction,
    cells::{CellMap, changed_block},
    locksets::Locksets,
    sections::SignallingSections,
    semaphores::{Tokens, used_as_mutexes},
    state::SyncState,
};
use crate::{
    hash::Map,
    trace_inconsistency::{InconsistencyReason, TraceInconsistency},
};
use std::collections::{BTreeMap, BTreeSet};
use unsnarl_model::{Event, SiteIx, ThreadIx};
use unsnarl_semantics::{
    Access, AccessKind, BarrierOp, Blocks, ByteRange, CondOp, FutexOp, HeldLock, Hold, LockChange, LockMode,
    MemoryOp, MutexOp, OnceOp, Operation, RwLockOp, SemaphoreOp, SignalOp, Step, ThreadOp,
};

impl Model {
    /// Builds the model of a window that begins in this state.
    ///
    /// # Errors
    /// Returns an error if the events contradict each other.
    pub(crate) fn of(
        events: &[Event],
        start: &SyncState,
        reads: ReadRule,
    ) -> Result<Self, TraceInconsistency> {
        let mut state = start.clone();
        if u32::try_from(events.len()).is_err() {
            let (event, thread) = (start.events(), ThreadIx::MAIN);
            return Err(TraceInconsistency { event, thread, reason: InconsistencyReason::TooManyEvents });
        }
        let mut build = ModelBuilder::new(events, start, reads);
        let mut changes = Vec::new();
        for (event, number) in events.iter().zip(0..) {
            let step = state.machine().decode(event);
            changes.clear();
            state.step_with(&step, &mut |change| changes.push(change))?;
            // With free reads, a run decides, and the detector observing it accounts for uninstrumented code.
            let uninstrumented = reads == ReadRule::Same && state.may_be_ordered_by_uninstrumented();
            build.step(&step, number, &changes, uninstrumented);
        }
        build.model.held_at_end = build.held;
        Ok(build.model)
    }
}

struct ModelBuilder {
    model: Model,
    /// By thread: its current lockset.
    held: Vec<u32>,
    /// By thread: the index of its last event in the window.
    last_events: Vec<u32>,
    /// By thread: whether it has ended the program.
    exited: Vec<bool>,
    /// By thread: the step that created it.
    created: Vec<u32>,
    lock_numbers: Map<u64, u32>,
    /// By lock: the step that acquired it last, and the step that initialised it.
    acquired_by: Map<u32, u32>,
    initialised_by: Map<u32, u32>,
    /// By cell: its contents.
    contents: Vec<u32>,
    nth_access: usize,
    blocks: Blocks,
    /// By generation of a block: the step that allocated it, and the last access of each thread.
    touched: BTreeMap<u32, (u32, BTreeMap<ThreadIx, u32>)>,
    mutexes: BTreeSet<u64>,
    tokens: BTreeMap<u64, Tokens>,
    waits: BTreeMap<ThreadIx, u32>,
    /// By the window's number of a waking event: its step.
    signals: BTreeMap<u64, u32>,
    rounds: BTreeMap<(u64, u64), Vec<u32>>,
    once: BTreeMap<u64, u32>,
    futexes: BTreeMap<u64, u32>,
    /// The last step that operated on a descriptor.
    channels: Option<u32>,
    /// The last step that operated on a file.
    files: Option<u32>,
    /// The last step that concerned signals.
    signalling: Option<u32>,
    cancels: BTreeMap<u64, u32>,
    sections: SignallingSections,
    /// By writing step: its section. Only with free reads.
    wrote_in: Map<u32, u32>,
    /// The accesses of each thread in its current segment. Only with free reads.
    accessed: Vec<Map<(SiteIx, ByteRange, AccessKind), u32>>,
    /// The number of events before the window.
    before: u64,
}

/// The effect of an event on other threads, apart from that on locks.
struct StepEffect {
    needs: Vec<u32>,
    action: StepAction,
    /// True if the thread waits until the steps it needs are done.
    waits: bool,
}

impl ModelBuilder {
    fn new(events: &[Event], start: &SyncState, reads: ReadRule) -> Self {
        let holders = start.machine().holds().map(|(_, hold)| hold.thread);
        let threads = events.iter().map(|event| event.thread).chain(holders).max();
        let count = threads.map_or(0, |thread| thread.index() + 1);
        let mut last_events = vec![NONE; count];
        for (event, number) in events.iter().zip(0..) {
            last_events[event.thread.index()] = number;
        }
        let cells = CellMap::of(events);
        let mut build = Self {
            held: vec![0; count],
            last_events,
            exited: vec![false; count],
            created: vec![NONE; count],
            lock_numbers: Map::default(),
            acquired_by: Map::default(),
            initialised_by: Map::default(),
            contents: vec![INITIAL; cells.count()],
            nth_access: 0,
            blocks: Blocks::default(),
            touched: BTreeMap::new(),
            mutexes: used_as_mutexes(events, start),
            tokens: BTreeMap::new(),
            waits: BTreeMap::new(),
            signals: BTreeMap::new(),
            rounds: BTreeMap::new(),
            once: BTreeMap::new(),
            futexes: BTreeMap::new(),
            channels: None,
            files: None,
            signalling: None,
            cancels: BTreeMap::new(),
            sections: SignallingSections::default(),
            wrote_in: Map::default(),
            accessed: vec![Map::default(); count],
            before: start.events(),
            model: Model {
                steps: Vec::new(),
                threads: vec![Vec::new(); count],
                given: vec![0; count],
                cells,
                locks: Vec::new(),
                locksets: Locksets::default(),
                signalled_waits: Vec::new(),
                held_at_end: Vec::new(),
                reads,
                synchronising: 0,
                touches: Vec::new(),
                needs: Vec::new(),
            },
        };
        build.given(start);
        build
    }

    /// Adds completed steps for locks that were acquired before the window.
    fn given(&mut self, start: &SyncState) {
        let is_shared = |hold: &Hold| hold.mode == LockMode::Shared;
        let locks: Vec<_> =
            start.machine().holds().map(|(lock, hold)| (lock, hold.thread, is_shared(&hold))).collect();
        let tokens = start.machine().token_takers().filter(|(lock, _)| self.mutexes.contains(lock));
        let tokens: Vec<_> = tokens.map(|(lock, thread)| (lock, thread, false)).collect();
        for (lock, thread, shared) in locks.into_iter().chain(tokens) {
            if thread.index() >= self.held.len() {
                continue;
            }
            let lock = self.lock(lock);
            self.push(thread, NONE, SiteIx(0), StepAction::Acquires { lock, shared, waits: false }, &[]);
            self.model.given[thread.index()] += 1;
        }
    }

    /// Adds a step of the trace. `uninstrumented`: everything before it stays before it.
    fn step(&mut self, step: &Step, number: u32, changes: &[LockChange], uninstrumented: bool) {
        let thread = step.thread.index();
        if self.exited[thread] {
            return;
        }
        if let Operation::Memory(MemoryOp::Access(access)) = &step.operation {
            return self.access(step, access, number, uninstrumented);
        }
        if matches!(step.operation, Operation::Thread(ThreadOp::Exit { .. })) {
            // Reordering concerns only what happens before the program ends.
            self.exited[thread] = true;
            return;
        }
        self.accessed[thread].clear();
        let actions = self.lock_actions(step, changes);
        let StepEffect { mut needs, action, waits } = self.effect(step);
        let awaited = if waits { needs.len() } else { 0 };
        if uninstrumented {
            needs.extend(self.all_before());
        }
        self.model.synchronising +=
            u64::from(action != StepAction::Other || !actions.is_empty() || !needs.is_empty());
        let mut first = true;
        for action in actions {
            let (mut needs, awaited) = if first { (needs.clone(), awaited) } else { (Vec::new(), 0) };
            first = false;
            needs.extend(self.needs_of_lock(action));
            let new = self.push_waiting(step.thread, number, step.site, action, needs.split_at(awaited));
            if let StepAction::Acquires { lock, .. } = action {
                self.acquired_by.insert(lock, new);
            }
        }
        if first {
            self.push_waiting(step.thread, number, step.site, action, needs.split_at(awaited));
        }
        let new = self.model.steps.len() as u32 - 1;
        self.remember(step, number, new);
    }

    /// Returns the actions of a step on locks, including semaphores used as locks.
    fn lock_actions(&mut self, step: &Step, changes: &[LockChange]) -> Vec<StepAction> {
        if let Operation::Semaphore(op) = step.operation
            && self.mutexes.contains(&op.semaphore())
        {
            let (lock, shared) = (self.lock(op.semaphore()), false);
            return match op {
                SemaphoreOp::Wait { attempt, .. } if step.succeeded() => {
                    vec![StepAction::Acquires { lock, shared, waits: !attempt }]
                }
                SemaphoreOp::Wait { .. } => vec![StepAction::Refused { lock, shared }],
                SemaphoreOp::Post { .. } => vec![StepAction::Releases { lock, shared }],
                _ => Vec::new(),
            };
        }
        let shared = |mode: LockMode| mode == LockMode::Shared;
        let action = |change: &LockChange| match *change {
            LockChange::Acquired { lock, mode, attempt } => {
                StepAction::Acquires { lock: self.lock(lock), shared: shared(mode), waits: !attempt }
            }
            LockChange::Released { lock, hold } => {
                StepAction::Releases { lock: self.lock(lock), shared: shared(hold.mode) }
            }
            LockChange::Refused { lock, mode } => {
                StepAction::Refused { lock: self.lock(lock), shared: shared(mode) }
            }
        };
        changes.iter().map(action).collect()
    }

    /// Returns the needs of a step on a lock: a lock must have been initialised, and a refused thread must
    /// find it held.
    fn needs_of_lock(&self, action: StepAction) -> Vec<u32> {
        match action {
            StepAction::Acquires { lock, .. } | StepAction::Releases { lock, .. } => {
                self.initialised_by.get(&lock).into_iter()
            }
            StepAction::Refused { lock, .. } => self.acquired_by.get(&lock).into_iter(),
            _ => None.into_iter(),
        }
        .copied()
        .collect()
    }

    /// Returns the needs of a step, and its action if that does not concern locks.
    fn effect(&mut self, step: &Step) -> StepEffect {
        let mut needs = Vec::new();
        let mut action = StepAction::Other;
        let mut waits = false;
        match &step.operation {
            Operation::Cond(CondOp::Wake { .. }) => {
                needs.extend(self.waker(step));
                waits = true;
            }
            Operation::Semaphore(op) => {
                waits = matches!(op, SemaphoreOp::Wait { attempt: false, .. });
                if let SemaphoreOp::Wait { semaphore, left, .. } = *op
                    && step.succeeded()
                    && !self.mutexes.contains(&semaphore)
                {
                    needs.extend(self.tokens.entry(semaphore).or_default().take(step.thread, left));
                }
            }
            Operation::Barrier(BarrierOp::Leave { barrier, round }) => {
                needs.extend(self.rounds.get(&(*barrier, *round)).into_iter().flatten());
                waits = true;
            }
            Operation::Once(op) => {
                needs.extend(self.once.get(&op.once()));
                waits = !matches!(op, OnceOp::End { .. });
            }
            Operation::Thread(ThreadOp::Join { thread }) => {
                waits = true;
                if let Some(child) = thread.known().filter(|_| step.succeeded()) {
                    let steps = self.model.threads.get(child.index());
                    needs.extend(steps.and_then(|steps| steps.last()));
                    action = StepAction::Joins(child);
                }
            }
            Operation::Thread(ThreadOp::Cancelled) => {
                needs.extend(self.cancels.get(&u64::from(step.thread.0)));
            }
            Operation::Memory(MemoryOp::Free(block)) if step.succeeded() => {
                let generation = self.blocks.generation(block.first);
                needs.extend(self.touched.get(&generation).into_iter().flat_map(|(_, last)| last.values()));
            }
            // The order of futex operations is kept, because the lock around them may be invisible.
            Operation::Futex(op) => {
                needs.extend(self.waker(step));
                needs.extend(self.futexes.get(&op.futex()));
            }
            // So is the order of operations on descriptors, because a read returns what was written before.
            Operation::Descriptor(_) => needs.extend(self.channels),
            // And the order of those on files, whose contents are not known.
            Operation::File(_) => needs.extend(self.files),
            // And that of signals, because which thread may take one depends on what all threads have done
            // with signals before.
            Operation::Signal(_) => {
                needs.extend(self.waker(step));
                needs.extend(self.signalling);
            }
            operation => {
                needs.extend(replaced_lock(operation).into_iter().flat_map(|lock| self.uses_of(lock)))
            }
        }
        StepEffect { needs, action, waits }
    }

    /// Returns the step that woke the thread or sent the signal that it takes.
    fn waker(&self, step: &Step) -> Option<u32> {
        let at = step.operation.waker()?.checked_sub(self.before)?;
        self.signals.get(&at).copied()
    }

    /// Returns the last step of each thread that used a lock. An object that is destroyed or initialised
    /// again is no longer in use.
    fn uses_of(&self, lock: u64) -> Vec<u32> {
        let Some(&number) = self.lock_numbers.get(&lock) else { return Vec::new() };
        let uses = |step: &&u32| {
            matches!(self.model.step(**step).action,
                StepAction::Acquires { lock, .. } | StepAction::Releases { lock, .. } if lock == number)
        };
        self.model.threads.iter().filter_map(|steps| steps.iter().rev().find(uses).copied()).collect()
    }

    /// Records what later steps need to know about this one. `new` is its number in the model.
    fn remember(&mut self, step: &Step, number: u32, new: u32) {
        let thread = step.thread;
        match &step.operation {
            Operation::Thread(ThreadOp::Create { thread }) if step.succeeded() => {
                let child = thread.known().map_or(usize::MAX, ThreadIx::index);
                // A thread that already runs was created by another event, whatever this event says.
                if self
                    .model
                    .threads
                    .get(child)
                    .is_some_and(|steps| steps.len() as u32 == self.model.given[child])
                    && self.created[child] == NONE
                {
                    self.created[child] = new;
                }
            }
            Operation::Thread(ThreadOp::Cancel { thread }) if step.succeeded() => {
                self.cancels.insert(thread.0, new);
            }
            Operation::Cond(CondOp::Wait { .. }) if step.succeeded() => {
                self.waits.insert(thread, new);
            }
            Operation::Cond(CondOp::Wake { .. }) => {
                let signal = self.waker(step);
                if let Some(wait) = self.waits.remove(&thread)
                    && let Some(signal) = signal
                {
                    self.model.signalled_waits.push(SignalledWait { wait, signal, wake: new });
                }
            }
            Operation::Cond(CondOp::Signal { woken, .. }) => {
                if *woken > 0 {
                    self.signals.insert(number.into(), new);
                }
                self.sections.signal(thread);
                return;
            }
            Operation::Futex(op) => {
                if matches!(op, FutexOp::Wake { .. } | FutexOp::Requeue { .. }) {
                    self.signals.insert(number.into(), new);
                }
                self.futexes.insert(op.futex(), new);
            }
            Operation::Semaphore(SemaphoreOp::Post { semaphore, .. })
                if step.succeeded() && !self.mutexes.contains(semaphore) =>
            {
                self.tokens.entry(*semaphore).or_default().post(thread, new);
            }
            Operation::Semaphore(SemaphoreOp::Init { semaphore, .. }) => {
                self.tokens.remove(semaphore);
            }
            Operation::Barrier(BarrierOp::Arrive { barrier, round }) => {
                self.rounds.entry((*barrier, *round)).or_default().push(new);
            }
            Operation::Once(OnceOp::Begin { once } | OnceOp::End { once }) => {
                self.once.insert(*once, new);
            }
            Operation::Descriptor(_) => self.channels = Some(new),
            Operation::File(_) => self.files = Some(new),
            Operation::Signal(op) => {
                self.signalling = Some(new);
                if matches!(op, SignalOp::Send { .. } | SignalOp::TimerFires { .. }) {
                    self.signals.insert(number.into(), new);
                }
            }
            operation => {
                if let Some(addr) = replaced_lock(operation) {
                    self.lock_numbers.remove(&addr);
                    let lock = self.lock(addr);
                    self.initialised_by.insert(lock, new);
                } else if let Some(block) = changed_block(step) {
                    let generation = self.blocks.renew(block);
                    self.touched.insert(generation, (new, BTreeMap::new()));
                }
            }
        }
        if self.held[thread.index()] == 0 {
            let is_release = matches!(self.model.steps[new as usize].action, StepAction::Releases { .. });
            if !is_release {
                self.sections.part(thread);
            }
        }
    }

    fn access(&mut self, step: &Step, access: &Access, number: u32, uninstrumented: bool) {
        let range = self.model.cells.range(self.nth_access);
        self.nth_access += 1;
        let thread = step.thread;
        let bound = self.last_events[thread.index()] == number || self.is_first(thread) || uninstrumented;
        let mut needs: Vec<u32> = if uninstrumented { self.all_before().collect() } else { Vec::new() };
        let shared = range.clone().any(|cell| self.model.cells.is_shared(cell));
        if !shared {
            if bound {
                self.push(thread, number, step.site, StepAction::Other, &needs);
            }
            return;
        }
        if self.model.reads == ReadRule::Free && !access.is_atomic() && !bound {
            // The paper: in a segment, one access to a place is enough. But the program may not follow to the
            // first of them, so a few are kept as alternatives.
            const SOME: u32 = 4;
            let key = (step.site, access.range, access.kind);
            let count = self.accessed[thread.index()].entry(key).or_default();
            *count += 1;
            if *count > SOME {
                return;
            }
        }
        let first = self.model.touches.len();
        for cell in range.clone() {
            if !self.model.cells.is_shared(cell) {
                continue;
            }
            let content = self.contents[cell as usize];
            let sees = if access.reads && self.must_see(thread, access, content) { content } else { NONE };
            self.model.touches.push(CellTouch { cell, sees, writes: access.writes });
        }
        if self.is_repeated(step, access, first) && !bound {
            self.model.touches.truncate(first);
            return;
        }
        let generation = self.blocks.generation(access.range.first);
        if let Some((given, _)) = self.touched.get(&generation)
            && self.model.step(*given).thread != thread
        {
            needs.push(*given);
        }
        let action = StepAction::Access {
            writes: access.writes,
            atomic: access.is_atomic(),
            own_stack: access.own_stack,
        };
        let touches = (first as u32, self.model.touches.len() as u32);
        let new = self.push(thread, number, step.site, action, &needs);
        self.model.steps[new as usize].touches = touches;
        if let Some((_, last)) = self.touched.get_mut(&generation) {
            last.insert(thread, new);
        }
        if access.writes {
            for touch in &self.model.touches[first..] {
                self.contents[touch.cell as usize] = new + 1;
            }
            if self.model.reads == ReadRule::Free
                && let Some(section) = self.sections.of(thread)
            {
                self.wrote_in.insert(new, section);
            }
        }
    }

    /// Returns the last step of each thread.
    fn all_before(&self) -> impl Iterator<Item = u32> + '_ {
        self.model.threads.iter().filter_map(|steps| steps.last().copied())
    }

    fn is_first(&self, thread: ThreadIx) -> bool {
        self.model.threads[thread.index()].len() as u32 == self.model.given[thread.index()]
    }

    /// Returns whether a read must see the same write as in the trace.
    fn must_see(&self, reader: ThreadIx, access: &Access, content: u32) -> bool {
        match (self.model.reads, access.kind) {
            (ReadRule::Same, _) | (ReadRule::Free, AccessKind::Load) => true,
            (ReadRule::Free, AccessKind::CompareExchange) => !access.writes,
            (ReadRule::Free, AccessKind::Read) if content != INITIAL => {
                self.is_handed_over(reader, content - 1)
            }
            (ReadRule::Free, _) => false,
        }
    }

    /// Returns whether the writer signalled a condition under a lock that the reader holds too.
    fn is_handed_over(&self, reader: ThreadIx, writer: u32) -> bool {
        let step = self.model.step(writer);
        let emit = self.wrote_in.get(&writer).is_some_and(|&section| self.sections.signalled(section));
        step.thread != reader && emit && !self.model.locksets.compatible(step.held, self.held[reader.index()])
    }

    /// Returns whether a read adds nothing to its thread's previous step.
    fn is_repeated(&self, step: &Step, access: &Access, first: usize) -> bool {
        if access.writes || self.model.reads == ReadRule::Free {
            return false;
        }
        let steps = &self.model.threads[step.thread.index()];
        let Some(before) = steps.last().map(|&number| self.model.step(number)) else { return false };
        let same =
            |(a, b): (&CellTouch, &CellTouch)| a.cell == b.cell && a.sees == b.sees && a.writes == b.writes;
        let (old, new) = (self.model.touches(before), &self.model.touches[first..]);
        before.site == step.site && old.len() == new.len() && !old.is_empty() && old.iter().zip(new).all(same)
    }

    fn lock(&mut self, addr: u64) -> u32 {
        let locks = &mut self.model.locks;
        *self.lock_numbers.entry(addr).or_insert_with(|| {
            locks.push(addr);
            locks.len() as u32 - 1
        })
    }

    fn push(&mut self, thread: ThreadIx, event: u32, site: SiteIx, action: StepAction, needs: &[u32]) -> u32 {
        self.push_waiting(thread, event, site, action, (&[], needs))
    }

    /// Adds a step with the steps it waits for and its other needs.
    fn push_waiting(
        &mut self,
        thread: ThreadIx,
        event: u32,
        site: SiteIx,
        action: StepAction,
        (awaited, needs): (&[u32], &[u32]),
    ) -> u32 {
        let ix = thread.index();
        let first_need = self.model.needs.len() as u32;
        let is_others = |need: &&u32| self.model.steps[**need as usize].thread != thread;
        self.model.needs.extend(awaited.iter().filter(is_others));
        let awaited = self.model.needs.len() as u32 - first_need;
        self.model.needs.extend(needs.iter().filter(is_others));
        if event != NONE && self.is_first(thread) && self.created[ix] != NONE {
            self.model.needs.push(self.created[ix]);
        }
        let number = self.model.steps.len() as u32;
        self.model.steps.push(ModelStep {
            thread,
            at: self.model.threads[ix].len() as u32,
            event,
            site,
            action,
            held: self.held[ix],
            touches: (0, 0),
            needs: (first_need, self.model.needs.len() as u32),
            awaited,
        });
        self.model.threads[ix].push(number);
        match action {
            StepAction::Acquires { lock, shared, .. } => {
                if self.held[ix] == 0 {
                    self.sections.enter(thread);
                }
                let mode = if shared { LockMode::Shared } else { LockMode::Exclusive };
                self.held[ix] = self.model.locksets.with(self.held[ix], HeldLock { lock, mode });
            }
            StepAction::Releases { lock, .. } => {
                self.held[ix] = self.model.locksets.without(self.held[ix], lock)
            }
            _ => {}
        }
        number
    }
}

/// Returns the lock that becomes another one by this operation.
const fn replaced_lock(operation: &Operation) -> Option<u64> {
    match *operation {
        Operation::Mutex(MutexOp::Init { lock } | MutexOp::Destroy { lock })
        | Operation::RwLock(RwLockOp::Init { lock } | RwLockOp::Destroy { lock }) => Some(lock),
        _ => None,
    }
}
