//! Builds the model of a window from its events.

use super::{
    CellTouch, INITIAL, Model, ModelStep, NONE, Reads, StepAction, WakeUp,
    cells::{Blocks, Cells, is_access, is_block, reads, writes},
    locksets::Locksets,
    sections::SignallingSections,
    semaphores::{Tokens, used_as_mutexes},
    state::{LockEffect, SyncState},
};
use crate::{
    flaw::{Contradiction, Flaw},
    hash::Map,
};
use std::collections::{BTreeMap, BTreeSet};
use unsnarl_model::{Event, Flags, ObjectKind, Op, SiteIx, ThreadIx};
use unsnarl_semantics::succeeded;

impl Model {
    /// Builds the model of a window that begins in this state.
    ///
    /// # Errors
    /// Returns an error if the events contradict each other.
    pub(crate) fn of(events: &[Event], start: &SyncState, reads: Reads) -> Result<Self, Flaw> {
        let mut state = start.clone();
        if u32::try_from(events.len()).is_err() {
            let (event, thread) = (start.events(), ThreadIx::MAIN);
            return Err(Flaw { event, thread, contradiction: Contradiction::TooManyEvents });
        }
        let mut build = ModelBuilder::new(events, start, reads);
        for (event, number) in events.iter().zip(0..) {
            let mut effects = Vec::new();
            state.step_with(event, &mut |effect| effects.push(effect))?;
            // With free reads, a run decides, and the detector observing it accounts for uninstrumented code.
            let uninstrumented = reads == Reads::Same && state.may_be_ordered_by_uninstrumented();
            build.event(event, number, &effects, uninstrumented);
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
    taken_by: Map<u32, u32>,
    made_by: Map<u32, u32>,
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
    /// The last step that concerned signals.
    signalling: Option<u32>,
    cancels: BTreeMap<u64, u32>,
    sections: SignallingSections,
    /// By writing step: its section. Only with free reads.
    wrote_in: Map<u32, u32>,
    /// The accesses of each thread in its current segment. Only with free reads.
    accessed: Vec<Map<(u32, u64, u32, u8), u32>>,
    /// The number of events before the window.
    before: u64,
}

/// The meaning of an event to other threads, apart from its effect on locks.
struct Meaning {
    needs: Vec<u32>,
    action: StepAction,
    /// True if the thread waits until the steps it needs are done.
    waits: bool,
}

impl ModelBuilder {
    fn new(events: &[Event], start: &SyncState, reads: Reads) -> Self {
        let holders = start.holdings().map(|(_, holding)| holding.thread);
        let threads = events.iter().map(|event| event.thread).chain(holders).max();
        let count = threads.map_or(0, |thread| thread.index() + 1);
        let mut last_events = vec![NONE; count];
        for (event, number) in events.iter().zip(0..) {
            last_events[event.thread.index()] = number;
        }
        let cells = Cells::of(events);
        let mut build = Self {
            held: vec![0; count],
            last_events,
            exited: vec![false; count],
            created: vec![NONE; count],
            lock_numbers: Map::default(),
            taken_by: Map::default(),
            made_by: Map::default(),
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
                wake_ups: Vec::new(),
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
        let locks: Vec<_> = start.holdings().map(|(lock, h)| (lock, h.thread, h.shared)).collect();
        let tokens = start.tokens.iter().filter(|(lock, _)| self.mutexes.contains(lock));
        let tokens: Vec<_> = tokens.map(|(&lock, &thread)| (lock, thread, false)).collect();
        for (lock, thread, shared) in locks.into_iter().chain(tokens) {
            if thread.index() >= self.held.len() {
                continue;
            }
            let lock = self.lock(lock);
            self.push(thread, NONE, SiteIx(0), StepAction::Takes { lock, shared, blocks: false }, &[]);
            self.model.given[thread.index()] += 1;
        }
    }

    /// Adds an event. `uninstrumented`: everything before it stays before it.
    fn event(&mut self, event: &Event, number: u32, effects: &[LockEffect], uninstrumented: bool) {
        let thread = event.thread.index();
        if self.exited[thread] {
            return;
        }
        if is_access(event) {
            return self.access(event, number, uninstrumented);
        }
        if event.op == Op::Exit {
            // Reordering concerns only what happens before the program ends.
            self.exited[thread] = true;
            return;
        }
        self.accessed[thread].clear();
        let effects = self.with_semaphores(event, effects);
        let Meaning { mut needs, action, waits } = self.meaning(event);
        let awaited = if waits { needs.len() } else { 0 };
        if uninstrumented {
            needs.extend(self.all_before());
        }
        self.model.synchronising +=
            u64::from(action != StepAction::Other || !effects.is_empty() || !needs.is_empty());
        let mut first = true;
        for effect in effects {
            let action = match effect {
                LockEffect::Takes { lock, shared, blocks } => {
                    StepAction::Takes { lock: self.lock(lock), shared, blocks }
                }
                LockEffect::Gives { lock, shared } => StepAction::Gives { lock: self.lock(lock), shared },
                LockEffect::Refused { lock, shared } => StepAction::Refused { lock: self.lock(lock), shared },
            };
            let (mut needs, awaited) = if first { (needs.clone(), awaited) } else { (Vec::new(), 0) };
            first = false;
            needs.extend(self.needs_of_lock(action));
            let step = self.push_waiting(event.thread, number, event.site, action, needs.split_at(awaited));
            if let StepAction::Takes { lock, .. } = action {
                self.taken_by.insert(lock, step);
            }
        }
        if first {
            self.push_waiting(event.thread, number, event.site, action, needs.split_at(awaited));
        }
        let step = self.model.steps.len() as u32 - 1;
        self.remember(event, number, step);
    }

    /// Returns the effects of an event on locks, including semaphores used as locks.
    fn with_semaphores(&self, event: &Event, effects: &[LockEffect]) -> Vec<LockEffect> {
        let lock = event.addr;
        match event.op {
            Op::SemWait | Op::SemTryWait if self.mutexes.contains(&lock) => {
                let blocks = event.op == Op::SemWait;
                vec![if succeeded(event) {
                    LockEffect::Takes { lock, shared: false, blocks }
                } else {
                    LockEffect::Refused { lock, shared: false }
                }]
            }
            Op::SemPost if self.mutexes.contains(&lock) => vec![LockEffect::Gives { lock, shared: false }],
            _ => effects.to_vec(),
        }
    }

    /// Returns the needs of a step on a lock: a lock must have been initialised, and a refused thread must
    /// find it held.
    fn needs_of_lock(&self, action: StepAction) -> Vec<u32> {
        match action {
            StepAction::Takes { lock, .. } | StepAction::Gives { lock, .. } => {
                self.made_by.get(&lock).into_iter()
            }
            StepAction::Refused { lock, .. } => self.taken_by.get(&lock).into_iter(),
            _ => None.into_iter(),
        }
        .copied()
        .collect()
    }

    /// Returns the needs of an event, and its action if that does not concern locks.
    fn meaning(&mut self, event: &Event) -> Meaning {
        let (thread, addr) = (event.thread, event.addr);
        let mut needs = Vec::new();
        let mut action = StepAction::Other;
        let waits = matches!(
            event.op,
            Op::CondWake | Op::SemWait | Op::BarrierLeave | Op::OncePass | Op::OnceBegin | Op::Join
        );
        match event.op {
            op if op.has_waker() => {
                let waker = event.waker().and_then(|waker| waker.checked_sub(self.before));
                needs.extend(waker.and_then(|at| self.signals.get(&at)));
            }
            Op::SemWait | Op::SemTryWait if succeeded(event) && !self.mutexes.contains(&addr) => {
                let tokens = self.tokens.entry(addr).or_default();
                needs.extend(tokens.take(thread, event.value));
            }
            Op::BarrierLeave => {
                needs.extend(self.rounds.get(&(addr, event.value)).into_iter().flatten());
            }
            Op::OnceBegin | Op::OnceEnd | Op::OncePass => needs.extend(self.once.get(&addr)),
            Op::Join if succeeded(event) => {
                if let Ok(child) = u16::try_from(event.value).map(ThreadIx) {
                    let steps = self.model.threads.get(child.index());
                    needs.extend(steps.and_then(|steps| steps.last()));
                    action = StepAction::Joins(child);
                }
            }
            // An object that is destroyed or initialised again is no longer in use.
            Op::LockInit | Op::LockDestroy | Op::RwInit | Op::RwDestroy => {
                let lock = self.lock_numbers.get(&addr).copied();
                let critical_sections = |number: &&u32| {
                    matches!(self.model.step(**number).action,
                        StepAction::Takes { lock: l, .. } | StepAction::Gives { lock: l, .. } if Some(l) == lock)
                };
                let last = |steps: &Vec<u32>| steps.iter().rev().find(critical_sections).copied();
                if lock.is_some() {
                    needs.extend(self.model.threads.iter().filter_map(last));
                }
            }
            Op::Cancelled => needs.extend(self.cancels.get(&u64::from(thread.0))),
            Op::Free if is_block(event) => {
                let generation = self.blocks.generation(addr);
                needs.extend(self.touched.get(&generation).into_iter().flat_map(|(_, last)| last.values()));
            }
            _ => {}
        }
        // The order of futex operations is kept, because the lock around them may be invisible.
        if matches!(event.op, Op::FutexWait | Op::FutexWoken | Op::FutexWake | Op::FutexRequeue) {
            needs.extend(self.futexes.get(&addr));
        }
        // So is the order of operations on descriptors, because a read returns what was written before.
        if event.op.object_kind() == Some(ObjectKind::Channel) {
            needs.extend(self.channels);
        }
        // And that of signals, because which thread may take one depends on what all threads have done with
        // signals before.
        if event.op.is_signalling() {
            needs.extend(self.signalling);
        }
        Meaning { needs, action, waits }
    }

    /// Records what later events need to know about this one.
    fn remember(&mut self, event: &Event, number: u32, step: u32) {
        let (thread, addr) = (event.thread, event.addr);
        if event.op.object_kind() == Some(ObjectKind::Channel) {
            self.channels = Some(step);
        }
        if event.op.is_signalling() {
            self.signalling = Some(step);
        }
        match event.op {
            Op::SigSend | Op::TimerFire => drop(self.signals.insert(number.into(), step)),
            Op::Create if succeeded(event) => {
                let child = usize::try_from(event.value).unwrap_or(usize::MAX);
                // A thread that already runs was created by another event, whatever this event says.
                if self
                    .model
                    .threads
                    .get(child)
                    .is_some_and(|steps| steps.len() as u32 == self.model.given[child])
                    && self.created[child] == NONE
                {
                    self.created[child] = step;
                }
            }
            Op::CondWait if succeeded(event) => {
                self.waits.insert(thread, step);
            }
            Op::CondWake => {
                if let Some(wait) = self.waits.remove(&thread)
                    && let Some(at) = event.waker().and_then(|waker| waker.checked_sub(self.before))
                    && let Some(&signal) = self.signals.get(&at)
                {
                    self.model.wake_ups.push(WakeUp { wait, signal, wake: step });
                }
            }
            Op::Signal | Op::Broadcast => {
                if event.value > 0 {
                    self.signals.insert(number.into(), step);
                }
                self.sections.signal(thread);
                return;
            }
            Op::FutexWake | Op::FutexRequeue => {
                self.signals.insert(number.into(), step);
                self.futexes.insert(addr, step);
            }
            Op::FutexWait | Op::FutexWoken => {
                self.futexes.insert(addr, step);
            }
            Op::SemPost if !self.mutexes.contains(&addr) => {
                self.tokens.entry(addr).or_default().post(thread, step);
            }
            Op::SemInit => {
                self.tokens.remove(&addr);
            }
            Op::BarrierArrive => self.rounds.entry((addr, event.value)).or_default().push(step),
            Op::OnceBegin | Op::OnceEnd => {
                self.once.insert(addr, step);
            }
            Op::Cancel if succeeded(event) => {
                self.cancels.insert(event.value, step);
            }
            Op::LockInit | Op::LockDestroy | Op::RwInit | Op::RwDestroy => {
                self.lock_numbers.remove(&addr);
                let lock = self.lock(addr);
                self.made_by.insert(lock, step);
            }
            Op::Alloc | Op::Free if is_block(event) => {
                let generation = self.blocks.renew(addr, event.size);
                self.touched.insert(generation, (step, BTreeMap::new()));
            }
            _ => {}
        }
        if self.held[thread.index()] == 0 {
            let gives = matches!(self.model.steps[step as usize].action, StepAction::Gives { .. });
            if !gives {
                self.sections.part(thread);
            }
        }
    }

    fn access(&mut self, event: &Event, number: u32, uninstrumented: bool) {
        let range = self.model.cells.range(self.nth_access);
        self.nth_access += 1;
        let thread = event.thread;
        let bound = self.last_events[thread.index()] == number || self.is_first(thread) || uninstrumented;
        let mut needs: Vec<u32> = if uninstrumented { self.all_before().collect() } else { Vec::new() };
        let shared = range.clone().any(|cell| self.model.cells.is_shared(cell));
        if !shared {
            if bound {
                self.push(thread, number, event.site, StepAction::Other, &needs);
            }
            return;
        }
        if self.model.reads == Reads::Free && !event.op.is_atomic() && !bound {
            // The paper: in a segment, one access to a place is enough. But the program may not follow to the
            // first of them, so a few are kept as alternatives.
            const SOME: u32 = 4;
            let key = (event.site.0, event.addr, event.size, event.op as u8);
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
            let sees = if reads(event) && self.must_see(event, content) { content } else { NONE };
            self.model.touches.push(CellTouch { cell, sees, writes: writes(event) });
        }
        if self.is_repeated(event, first) && !bound {
            self.model.touches.truncate(first);
            return;
        }
        let generation = self.blocks.generation(event.addr);
        if let Some((given, _)) = self.touched.get(&generation)
            && self.model.step(*given).thread != thread
        {
            needs.push(*given);
        }
        let action = StepAction::Access {
            writes: writes(event),
            atomic: event.op.is_atomic(),
            own_stack: event.flags.has(Flags::OWN_STACK),
        };
        let touches = (first as u32, self.model.touches.len() as u32);
        let step = self.push(thread, number, event.site, action, &needs);
        self.model.steps[step as usize].touches = touches;
        if let Some((_, last)) = self.touched.get_mut(&generation) {
            last.insert(thread, step);
        }
        if writes(event) {
            for touch in &self.model.touches[first..] {
                self.contents[touch.cell as usize] = step + 1;
            }
            if self.model.reads == Reads::Free
                && let Some(section) = self.sections.of(thread)
            {
                self.wrote_in.insert(step, section);
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
    fn must_see(&self, event: &Event, content: u32) -> bool {
        match (self.model.reads, event.op) {
            (Reads::Same, _) => true,
            (Reads::Free, Op::AtomicLoad) => true,
            (Reads::Free, Op::AtomicCas) => !succeeded(event),
            (Reads::Free, Op::Read) if content != INITIAL => self.is_handed_over(event.thread, content - 1),
            (Reads::Free, _) => false,
        }
    }

    /// Returns whether the writer signalled a condition under a lock that the reader holds too.
    fn is_handed_over(&self, reader: ThreadIx, writer: u32) -> bool {
        let step = self.model.step(writer);
        let emit = self.wrote_in.get(&writer).is_some_and(|&section| self.sections.signalled(section));
        step.thread != reader && emit && !self.model.locksets.compatible(step.held, self.held[reader.index()])
    }

    /// Returns whether a read adds nothing to its thread's previous step.
    fn is_repeated(&self, event: &Event, first: usize) -> bool {
        if writes(event) || self.model.reads == Reads::Free {
            return false;
        }
        let steps = &self.model.threads[event.thread.index()];
        let Some(before) = steps.last().map(|&number| self.model.step(number)) else { return false };
        let same =
            |(a, b): (&CellTouch, &CellTouch)| a.cell == b.cell && a.sees == b.sees && a.writes == b.writes;
        let (old, new) = (self.model.touches(before), &self.model.touches[first..]);
        before.site == event.site
            && old.len() == new.len()
            && !old.is_empty()
            && old.iter().zip(new).all(same)
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
            StepAction::Takes { lock, shared, .. } => {
                if self.held[ix] == 0 {
                    self.sections.enter(thread);
                }
                self.held[ix] = self.model.locksets.with(self.held[ix], (lock, shared));
            }
            StepAction::Gives { lock, .. } => {
                self.held[ix] = self.model.locksets.without(self.held[ix], lock)
            }
            _ => {}
        }
        number
    }
}
