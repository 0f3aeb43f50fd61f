//! The conflict search while the program runs: every event and every access goes through the detector, and
//! each pair of sites is reported once.

use crate::{
    end,
    log::Log,
    modules::Modules,
    shadow::Shadow,
    state::{Runtime, State},
};
use alloc::{boxed::Box, collections::BTreeSet};
use unsnarl_model::{ConflictKind, Event, Op, SiteIx, ThreadIx};
use unsnarl_race::{Access, Detector, FoundConflict};
use unsnarl_wire::{RawConflict, RawEvent, SideRequest};

/// The detector and its findings so far.
pub(crate) struct ConflictMonitor {
    detector: Detector<Shadow>,
    reported: ReportedPairs,
    side_requests: Option<[SideRequest; 2]>,
    /// The events whose call stacks are requested, and how many of them are captured.
    stack_requests: &'static [u64],
    captured: usize,
}

/// The parts of the run that a report refers to.
#[derive(Clone, Copy)]
pub(crate) struct ReportContext<'a> {
    pub(crate) log: &'a Log,
    pub(crate) modules: &'a Modules,
    /// The highest address of the running thread's stack.
    pub(crate) stack_top: usize,
}

/// Pairs of sites that were reported.
#[derive(Default)]
struct ReportedPairs {
    all: BTreeSet<Pair>,
    /// The latest findings in a small hash table: the same few are found again and again.
    recent: [Option<Pair>; Self::RECENT],
}

type Pair = (ConflictKind, u64, u64);

impl ReportedPairs {
    const RECENT: usize = 32;

    /// Returns whether the latest report of these sites was a race.
    #[inline]
    fn is_race(&self, [first, second]: [u64; 2]) -> bool {
        self.recent[Self::slot(first, second)] == Some((ConflictKind::Race, first, second))
    }

    #[inline]
    const fn slot(first: u64, second: u64) -> usize {
        (first ^ second >> 3 ^ first >> 5) as usize % Self::RECENT
    }

    /// Adds a pair; returns whether it is new.
    #[inline]
    fn insert(&mut self, pair: Pair) -> bool {
        let (_, first, second) = pair;
        let recent = &mut self.recent[Self::slot(first, second)];
        if *recent == Some(pair) {
            return false;
        }
        *recent = Some(pair);
        self.all.insert(pair)
    }
}

impl ConflictMonitor {
    pub(crate) fn new(log: &Log) -> Option<Box<Self>> {
        let side_requests = log.header().plan.side_requests;
        Some(Box::new(Self {
            detector: Detector::new(Shadow::reserve()?),
            reported: ReportedPairs::default(),
            side_requests: (side_requests[0].pc != 0).then_some(side_requests),
            stack_requests: log.stack_requests(),
            captured: 0,
        }))
    }

    /// Returns the shadow memory.
    pub(crate) fn shadow(&self) -> &Shadow {
        self.detector.memory()
    }

    /// Processes an access that is about to happen.
    #[inline]
    pub(crate) fn access(&mut self, context: ReportContext<'_>, access: &Access) {
        let Self { detector, reported, .. } = self;
        detector.access(access, |found| report_conflict(reported, context, &found, access));
    }

    /// Processes an operation that was logged under this number.
    pub(crate) fn step(&mut self, context: ReportContext<'_>, raw: &RawEvent, number: u64) {
        let Some(op) = raw.op() else { return };
        let event = Event {
            thread: raw.thread(),
            op,
            flags: raw.flags(),
            order: raw.order(),
            site: SiteIx(0),
            context: 0,
            size: raw.size(),
            addr: raw.addr,
            value: raw.value(),
        };
        let access = Access {
            thread: event.thread,
            op,
            addr: raw.addr,
            size: raw.size(),
            own_stack: false,
            tag: raw.pc(),
        };
        let Self { detector, reported, .. } = self;
        detector.step(&event, number, raw.pc(), |found| report_conflict(reported, context, &found, &access));
    }

    /// Processes a free: it conflicts with accesses that do not happen before it.
    pub(crate) fn free(&mut self, context: ReportContext<'_>, access: &Access) {
        let Self { detector, reported, .. } = self;
        detector.free(access, |found| report_conflict(reported, context, &found, access));
    }

    /// Orders everything done up to now before what the thread does next.
    pub(crate) fn order_after_all(&mut self, thread: ThreadIx) {
        self.detector.order_after_all(thread);
    }

    pub(crate) fn forget(&mut self, addr: usize, size: u64) {
        self.detector.forget(addr as u64, size);
    }
}

fn report_conflict(
    reported: &mut ReportedPairs,
    context: ReportContext<'_>,
    found: &FoundConflict,
    second: &Access,
) {
    let pcs = [found.first.tag(), second.tag];
    if found.kind == ConflictKind::Race && reported.is_race(pcs) {
        return;
    }
    let kind = context.certain_kind(found.kind, pcs);
    if !reported.insert((kind, pcs[0], pcs[1])) {
        return;
    }
    context.log.conflict(RawConflict {
        kind: kind as u8,
        ops: [found.first.op() as u8, second.op as u8],
        padding: 0,
        threads: [found.first.thread().0, second.thread.0],
        pcs,
        addr: found.addr,
    });
}

impl ReportContext<'_> {
    /// Returns the kind of a conflict between two sites. Code that is not instrumented may order its accesses
    /// by atomic operations that are not seen, so a race there may be none.
    fn certain_kind(self, kind: ConflictKind, pcs: [u64; 2]) -> ConflictKind {
        if kind != ConflictKind::Race {
            kind
        } else if !pcs.iter().all(|&pc| self.modules.is_instrumented(pc)) {
            ConflictKind::Hidden
        } else if self.is_called_by_ordering_code() {
            ConflictKind::Possible
        } else {
            ConflictKind::Race
        }
    }

    /// Returns whether the running thread was called by a library that may have ordered it: the scheduler of a task
    /// library, for example. Its stack is searched for return addresses. One that is left over from an earlier call only
    /// makes a race look less certain.
    #[cold]
    #[inline(never)]
    fn is_called_by_ordering_code(self) -> bool {
        const MAX_BYTES: usize = 256 << 10;
        if !self.modules.has_ordering_code() {
            return false;
        }
        let here = &raw const self as usize & !7;
        let end = self.stack_top.min(here + MAX_BYTES);
        (here..end.saturating_sub(7)).step_by(8).any(|at| {
            // SAFETY: a part of the running thread's stack that is in use.
            let word = unsafe { (at as *const u64).read_volatile() };
            self.modules.is_ordering_code(word)
        })
    }
}

impl State {
    /// Passes the event with this number to the detector, except plain accesses, which it has already seen.
    pub(crate) fn watch_event(&mut self, event: &RawEvent, number: u64) {
        let stack_top = self.me().stack_top;
        let Some(conflicts) = &mut self.conflicts else { return };
        if !event.op().is_none_or(|op| matches!(op, Op::Read | Op::Write | Op::Alloc | Op::Free)) {
            let context = ReportContext { log: &self.log, modules: &self.modules, stack_top };
            conflicts.step(context, event, number);
            self.capture_conflict_stack(event.pc());
        }
        self.capture_event_stack(number);
    }

    /// Captures the call stack of this event, if it is requested.
    fn capture_event_stack(&mut self, number: u64) {
        let Some(conflicts) = &mut self.conflicts else { return };
        if conflicts.stack_requests.get(conflicts.captured) == Some(&number) {
            let nth = conflicts.captured;
            conflicts.captured += 1;
            let top = self.me().stack_top;
            self.log.calls(nth, number, self.current, end::current_registers(), top);
        }
    }

    /// Captures the call stacks of both sides of the requested race: that of the first side at each access,
    /// until the race is found.
    pub(crate) fn capture_conflict_stack(&mut self, pc: u64) {
        let Some(conflicts) = &mut self.conflicts else { return };
        let Some([first, second]) = conflicts.side_requests else { return };
        let me = SideRequest { pc, thread: self.current.0.into() };
        let found =
            me == second && conflicts.reported.all.contains(&(ConflictKind::Race, first.pc, second.pc));
        if found {
            conflicts.side_requests = None;
        }
        if found || me == first {
            let top = self.me().stack_top;
            self.log.side_stack(u64::from(found), self.current, end::current_registers(), top);
        }
    }
}

impl Runtime {
    /// Passes an access that is about to happen to the detector, and to the log of accesses.
    #[inline]
    pub(crate) fn watch(&mut self, access: &Access) {
        if self.state.me().unseen_order.is_unapplied() {
            self.state.apply_unseen_order();
        }
        let stack_top = self.state.me().stack_top;
        let State { conflicts, log, modules, access_log, .. } = &mut self.state;
        if access_log.is_on() {
            access_log.note(log, access);
        }
        if let Some(conflicts) = conflicts {
            conflicts.access(ReportContext { log, modules, stack_top }, access);
            if conflicts.side_requests.is_some() {
                self.state.capture_conflict_stack(access.tag);
            }
        }
    }
}
