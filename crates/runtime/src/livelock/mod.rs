//! Livelocks: rounds that repeat.
//!
//! If the state of the whole program recurs, and every thread that could run in between did run, the threads can
//! go round for ever under a fair scheduler: such an execution is what Musuvathi and Qadeer call a livelock
//! ("Fair Stateless Model Checking", PLDI 2008, section 2).
//!
//! From time to time it is checked whether the threads still do anything that they have not done shortly before.
//! If not, the state at the last event is compared with the states in which the same thread repeats that event.
//! The state consists of all that decides how the program goes on: registers, stacks and memory, what each
//! thread waits for, and how long ([`fingerprint`]). So a loop that counts is no livelock, nor one that waits for
//! the time, for another process or for anything else outside the program.
//!
//! Frames of the runtime on a thread's stack have places that are not written each time, and hold what earlier calls left
//! there. A switch leaves something else there with each thread backend. So from some time before the first comparison
//! on, the unused stack is cleared after each switch ([`RoundDetector::is_active`]): states are equal on both backends or
//! on neither.
//!
//! Under a random scheduler even threads that back off politely (`std::lock` does) may return to a state a few
//! times. A livelock must return [`ENOUGH`] times without doing anything new.

mod fingerprint;

pub(crate) use fingerprint::{Fingerprint, FingerprintBuffer, mix};

use crate::{children, end, heap, stack, state::Runtime, state::State};
use alloc::boxed::Box;
use unsnarl_model::{Flags, Op, Policy, ThreadIx};
use unsnarl_sched::ThreadSet;
use unsnarl_wire::{PlanWords, RawEvent};

/// The number of events before the first attempt. Each further attempt is made after twice as many.
const FIRST: u64 = 1 << 16;
/// The number of events between the decision to make an attempt and its first state.
const SETTLING: u64 = 1 << 8;
/// The number of last events in which a livelock does nothing new, in the second half of them.
const WINDOW: usize = 1 << 13;
/// The maximum number of different events of a livelock.
const MAX_KINDS: usize = 1 << 8;
/// The number of recurrences after which it is a livelock.
const ENOUGH: u32 = 16;
/// The number of times the event may recur without the state.
const MAX_MISSES: u32 = 1 << 7;
/// The number of times the threads may be in the same state while memory is in another.
const MAX_CHANGES: u32 = 4;
/// The number of events after which an attempt is abandoned.
const MAX_EVENTS: u64 = 1 << 16;

/// Looks for rounds that repeat.
pub(crate) struct RoundDetector {
    /// The number of events at which the next attempt begins.
    next: u64,
    /// The number of events at which an attempt begins that has been decided upon.
    settles_at: Option<u64>,
    attempt: Option<Box<Attempt>>,
}

/// The state with which later states are compared, and what happened since.
struct Attempt {
    /// The event after which states are compared.
    anchor: EventKey,
    state: Fingerprint,
    buffer: FingerprintBuffer,
    /// The number of events when it began.
    began: u64,
    /// The number of events at the last recurrence.
    since: u64,
    recurrences: u32,
    misses: u32,
    changes: u32,
    /// The threads that could run since the last recurrence.
    enabled: ThreadSet,
    /// The threads that ran.
    served: ThreadSet,
}

/// Everything about an event by which it is the same as another.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct EventKey([u64; 4]);

impl EventKey {
    fn of(event: &RawEvent) -> Self {
        let op = event.op().map_or(u64::MAX, |op| op as u64);
        let flags =
            u64::from(event.flags().has(Flags::FAILED)) | u64::from(event.flags().has(Flags::TIMED_OUT)) << 1;
        // The end of a sleep is a time.
        let value = if event.op() == Some(Op::Sleep) { 0 } else { event.value() };
        Self([u64::from(event.thread().0) << 32 | op << 8 | flags, event.pc(), event.addr, value])
    }

    fn hash(self) -> usize {
        let mixed = self.0.iter().fold(0u64, |hash, &word| fingerprint::mix(hash, word));
        (mixed >> 32) as usize
    }
}

/// The progress of an attempt.
enum Progress {
    GoesOn,
    Abandoned,
    /// A livelock: the number of events of a round.
    Repeats(u64),
}

impl RoundDetector {
    /// Creates the detector of a run.
    pub(crate) fn of(plan: &PlanWords) -> Self {
        Self { next: if is_prescribed(plan) { u64::MAX } else { FIRST }, settles_at: None, attempt: None }
    }

    /// Returns the number of events at which [`Runtime::next_round`] must be called next.
    pub(crate) const fn due(&self) -> u64 {
        if self.is_active() { 0 } else { self.next }
    }

    /// Returns whether states are compared, or will be soon.
    #[inline]
    pub(crate) const fn is_active(&self) -> bool {
        self.settles_at.is_some() || self.attempt.is_some()
    }

    /// Continues with another plan.
    pub(crate) fn continue_with(&mut self, plan: &PlanWords) {
        if is_prescribed(plan) {
            *self = Self { next: u64::MAX, settles_at: None, attempt: None };
        }
    }
}

/// Returns whether the plan prescribes the whole run. Such a run ends like its recording, and nothing is to be found
/// out about it.
fn is_prescribed(plan: &PlanWords) -> bool {
    plan.policy() == Policy::Stop && plan.snapshot == 0
}

/// Returns whether all state that the operation changes is compared.
fn is_comparable(event: &RawEvent) -> bool {
    let (failed, value) = (event.flags().has(Flags::FAILED), event.value());
    match event.op() {
        Some(
            Op::AtomicLoad
            | Op::AtomicStore
            | Op::AtomicRmw
            | Op::AtomicCas
            | Op::Fence
            | Op::Read
            | Op::Write
            | Op::Lock
            | Op::TryLock
            | Op::Unlock
            | Op::ReadLock
            | Op::TryReadLock
            | Op::WriteLock
            | Op::TryWriteLock
            | Op::RwUnlock
            | Op::SemWait
            | Op::SemTryWait
            | Op::SemPost
            | Op::SemGet
            | Op::Yield
            | Op::Sleep
            | Op::Point
            | Op::OncePass,
        ) => true,
        // If nobody waits, they change nothing.
        Some(Op::Signal | Op::Broadcast | Op::FutexWake) => value == 0,
        Some(Op::FutexWait | Op::Join) => failed,
        _ => false,
    }
}

impl Runtime {
    /// Looks for a livelock after an operation whose event is about to be logged. Returns the number of events of the
    /// round that repeats, or 0.
    #[inline(never)]
    pub(crate) fn next_round(&mut self, event: &RawEvent) -> u64 {
        let state = &mut self.state;
        let registers = end::current_registers();
        stack::run_isolated(|| heap::with_plan_heap(|| state.next_round(event, registers)))
    }
}

impl State {
    /// Returns the number of events of the round that repeats, or 0.
    fn next_round(&mut self, event: &RawEvent, registers: [u64; 8]) -> u64 {
        let progress = match self.rounds.attempt.take() {
            Some(mut attempt) => {
                let progress = self.continue_attempt(&mut attempt, event, registers);
                if matches!(progress, Progress::GoesOn) {
                    self.rounds.attempt = Some(attempt);
                }
                progress
            }
            None => self.begin_attempt(event, registers),
        };
        self.log.check_at(self.rounds.due());
        match progress {
            Progress::Repeats(round) => round,
            _ => 0,
        }
    }

    fn begin_attempt(&mut self, event: &RawEvent, registers: [u64; 8]) -> Progress {
        let count = self.log.count();
        let Some(settles_at) = self.rounds.settles_at else {
            if count >= self.rounds.next && self.does_nothing_new() && !self.depends_on_outside() {
                self.rounds.settles_at = Some(count + SETTLING);
            }
            while self.rounds.next <= count {
                self.rounds.next *= 2;
            }
            return Progress::GoesOn;
        };
        if count < settles_at {
            return Progress::GoesOn;
        }
        self.rounds.settles_at = None;
        if self.depends_on_outside() {
            return Progress::Abandoned;
        }
        let mut buffer = FingerprintBuffer::new();
        let Some(state) = Fingerprint::of(self, registers, &mut buffer) else { return Progress::Abandoned };
        self.rounds.attempt = Some(Box::new(Attempt {
            anchor: EventKey::of(event),
            state,
            buffer,
            began: count,
            since: count,
            recurrences: 0,
            misses: 0,
            changes: 0,
            enabled: ThreadSet::new(),
            served: ThreadSet::new(),
        }));
        if let Some(attempt) = &mut self.rounds.attempt {
            attempt.note_enabled(&self.ready, &self.by_timeout);
        }
        Progress::GoesOn
    }

    fn continue_attempt(&mut self, attempt: &mut Attempt, event: &RawEvent, registers: [u64; 8]) -> Progress {
        let count = self.log.count();
        if !is_comparable(event) || self.polled > 0 || count - attempt.began > MAX_EVENTS {
            return Progress::Abandoned;
        }
        attempt.served.set(event.thread(), true);
        attempt.note_enabled(&self.ready, &self.by_timeout);
        if EventKey::of(event) != attempt.anchor {
            return Progress::GoesOn;
        }
        let threads = Fingerprint::of_threads(self, registers);
        let is_miss = threads != Some(attempt.state.threads());
        attempt.misses += u32::from(is_miss);
        // The state to compare with is replaced after 1, 2, 4 … misses (Brent's method): the first one may still have
        // been on the way to the round.
        if is_miss && !attempt.misses.is_power_of_two() {
            return if attempt.misses > MAX_MISSES { Progress::Abandoned } else { Progress::GoesOn };
        }
        let Some(now) = Fingerprint::of(self, registers, &mut attempt.buffer) else {
            return Progress::Abandoned;
        };
        if !now.follows(&attempt.state) {
            return Progress::Abandoned;
        }
        let recurs = now.is_same_state(&attempt.state);
        attempt.state.renew(&now);
        if !recurs {
            attempt.changes += u32::from(!is_miss);
            attempt.restart(now, count, &self.ready, &self.by_timeout);
            return if attempt.changes > MAX_CHANGES { Progress::Abandoned } else { Progress::GoesOn };
        }
        // If some thread could run and did not, the round is not fair yet.
        if attempt.enabled.iter().any(|thread| !attempt.served.contains(thread)) {
            return Progress::GoesOn;
        }
        attempt.recurrences += 1;
        let round = count - attempt.since;
        if attempt.recurrences >= ENOUGH && !self.depends_on_outside() {
            return Progress::Repeats(round);
        }
        attempt.begin_round(count, &self.ready, &self.by_timeout);
        Progress::GoesOn
    }

    /// Returns whether the second half of the last events repeats events of the first half.
    fn does_nothing_new(&self) -> bool {
        let events = self.log.last_events(WINDOW);
        let (old, new) = events.split_at(events.len() / 2);
        let mut known = [EventKey::default(); 2 * MAX_KINDS];
        let mut kinds = 0;
        for event in old {
            let key = EventKey::of(event);
            if !is_comparable(event) {
                return false;
            }
            let at = slot(&known, key);
            if known[at] != key {
                kinds += 1;
                if kinds > MAX_KINDS {
                    return false;
                }
                known[at] = key;
            }
        }
        new.iter().all(|event| {
            let key = EventKey::of(event);
            known[slot(&known, key)] == key
        })
    }

    /// Returns whether something outside the program's threads could change what they do: another process, a
    /// timer, a signal, or input.
    pub(crate) fn depends_on_outside(&self) -> bool {
        self.polled > 0
            || self.timers.thread.is_some()
            || !self.queues.is_empty()
            || self.threads.iter().any(|thread| !thread.ended && thread.must_check_signals)
            || children::may_act()
    }
}

impl Attempt {
    /// Compares later states with this one.
    fn restart(&mut self, state: Fingerprint, count: u64, ready: &ThreadSet, by_timeout: &ThreadSet) {
        (self.state, self.recurrences) = (state, 0);
        self.begin_round(count, ready, by_timeout);
    }

    fn begin_round(&mut self, count: u64, ready: &ThreadSet, by_timeout: &ThreadSet) {
        self.since = count;
        (self.enabled, self.served) = (ThreadSet::new(), ThreadSet::new());
        self.note_enabled(ready, by_timeout);
    }

    fn note_enabled(&mut self, ready: &ThreadSet, by_timeout: &ThreadSet) {
        ready.iter().chain(by_timeout.iter()).for_each(|thread: ThreadIx| self.enabled.set(thread, true));
    }
}

/// Returns the index of a key in a hash table with free entries, or of the entry where it belongs.
fn slot(table: &[EventKey], key: EventKey) -> usize {
    let mut at = key.hash() % table.len();
    while table[at] != EventKey::default() && table[at] != key {
        at = (at + 1) % table.len();
    }
    at
}
