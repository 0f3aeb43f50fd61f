//! Unordered dependences between threads: the paper's figure 2, `Slice_Race`, and the reductions of sections
//! 3.1 and 3.2.
//!
//! For each step of the closure: the earlier write of another thread to what it wrote (WAW), and the later
//! write of another thread to what it read (WAR). The closure is not continued from there: these accesses
//! could have changed the failing value, but it was not computed from them.
//!
//! Of each other thread only the nearest write counts, by the paper's transitivity; the edges to further
//! threads are restored as its section 3.1 requires. It counts only if happens-before does not order the two.
//! The paper orders by intervals of global time; here it is the vector clocks of `unsnarl_race`, which have fewer
//! accidental orders. Two critical sections of one lock are ordered by it, yet could have occurred in the
//! other order: such edges are reported on request, and marked.

use crate::{
    ByteSpan, Consumer, History, InstructionStep, RaceEdge, RaceKind, Reason, Slice,
    hash::{Hashed, Hashing},
};
use std::collections::HashSet;
use unsnarl_model::{Event, ThreadIx};
use unsnarl_race::{Epoch, HappensBefore};

/// The input that orders the steps of a run.
#[derive(Clone, Copy)]
pub struct OrderingInput<'a> {
    /// The events of the schedule, which steps refer to by number.
    pub events: &'a [Event],
    /// Whether an address is on the thread's own stack: two threads whose stacks used the same memory one
    /// after the other do not share it.
    pub own_stack: &'a dyn Fn(ThreadIx, u64) -> bool,
    /// Report also edges that only a lock orders.
    pub lock_order: bool,
}

impl std::fmt::Debug for OrderingInput<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Orders").field("events", &self.events.len()).finish_non_exhaustive()
    }
}

/// Happens-before, step by step.
pub(crate) struct Clocks<'a> {
    ordering: OrderingInput<'a>,
    order: HappensBefore,
    done: u64,
}

/// The order of two accesses.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum OrderedBy {
    No,
    ByLock,
    Yes,
}

impl<'a> Clocks<'a> {
    pub(crate) fn new(ordering: OrderingInput<'a>) -> Self {
        Self { ordering, order: HappensBefore::default(), done: 0 }
    }

    pub(crate) fn advance(&mut self, step: &InstructionStep<'_>) {
        while self.done < step.events
            && let Some(event) = self.ordering.events.get(self.done as usize)
        {
            self.order.step(&unsnarl_semantics::Step::decode(event, self.done));
            self.done += 1;
        }
    }

    /// Returns the thread's current epoch.
    pub(crate) fn now(&mut self, thread: ThreadIx) -> Epoch {
        self.order.now(thread)
    }

    pub(crate) fn ordered(&self, earlier: Epoch, thread: ThreadIx) -> OrderedBy {
        if !self.order.before(earlier, thread) {
            OrderedBy::No
        } else if self.ordering.lock_order && !self.order.before_without_locks(earlier, thread) {
            OrderedBy::ByLock
        } else {
            OrderedBy::Yes
        }
    }

    /// Returns whether the address denotes different memory for the two threads.
    pub(crate) fn are_different_stacks(&self, addr: u64, a: ThreadIx, b: ThreadIx) -> bool {
        (self.ordering.own_stack)(a, addr) && (self.ordering.own_stack)(b, addr)
    }
}

/// An access to some bytes of a granule.
#[derive(Clone, Copy)]
struct GranuleAccess {
    mask: u8,
    atomic: bool,
    when: Epoch,
    consumer: Consumer,
}

/// The accesses to a granule that the closure touches.
#[derive(Default)]
struct GranuleAccesses {
    /// The latest write of each thread.
    writes: Vec<GranuleAccess>,
    /// Reads by steps of the closure: the latest of each instruction and thread.
    reads: Vec<GranuleAccess>,
}

/// Adds to a closure the unordered accesses of other threads.
pub fn races(history: &dyn History, ordering: OrderingInput<'_>, slice: &mut Slice) {
    let accessed = accessed(history, slice);
    if accessed.is_empty() {
        return;
    }
    let mut memory: Hashed<u64, GranuleAccesses> =
        accessed.into_iter().map(|g| (g, GranuleAccesses::default())).collect();
    let mut clocks = Clocks::new(ordering);
    let mut edges: Vec<(RaceEdge, Consumer, Consumer)> = Vec::new();
    history.forwards(&mut |step| {
        let is_in_slice = slice.steps.contains(step.number);
        clocks.advance(step);
        forget(step, &mut memory);
        if step.copy || step.reads.is_empty() && step.writes.is_empty() && step.may_write.is_empty() {
            return;
        }
        let now = clocks.now(step.thread);
        let consumer = Consumer { instruction: step.instruction, thread: step.thread, step: step.number };
        // No race is reported based on a guess.
        let may_write = if step.guessed { &[] } else { step.may_write };
        for (granule, mask) in step.writes.iter().chain(may_write).flat_map(|span| span.granules()) {
            let Some(accessed) = memory.get_mut(&granule) else { continue };
            accessed.write(
                GranuleAccess { mask, atomic: step.atomic, when: now, consumer },
                granule * 8,
                is_in_slice,
                &clocks,
                &mut edges,
            );
        }
        if is_in_slice {
            for (granule, mask) in step.reads.iter().flat_map(|span| span.granules()) {
                if let Some(accessed) = memory.get_mut(&granule) {
                    accessed.read(GranuleAccess { mask, atomic: step.atomic, when: now, consumer });
                }
            }
        }
    });
    for (edge, new, known) in edges {
        let reason = match (edge.kind, edge.atomic) {
            (RaceKind::WriteAfterWrite, false) => Reason::WroteBefore(known, edge.addr),
            (RaceKind::WriteAfterRead, false) => Reason::WroteAfter(known, edge.addr),
            (RaceKind::WriteAfterWrite, true) => Reason::AtomicBefore(known, edge.addr),
            (RaceKind::WriteAfterRead, true) => Reason::AtomicAfter(known, edge.addr),
        };
        if !slice.steps.contains(new.step) {
            slice.add_node(new.instruction, new.thread, new.step, vec![reason]);
        } else if let Some(node) = slice.nodes.get_mut(&new.instruction)
            && !node.reasons.contains(&reason)
        {
            node.reasons.push(reason);
        }
        slice.races.insert(edge);
    }
}

impl GranuleAccesses {
    fn read(&mut self, read: GranuleAccess) {
        let same = |known: &GranuleAccess| {
            known.consumer.instruction == read.consumer.instruction
                && known.consumer.thread == read.consumer.thread
        };
        self.reads.retain(|known| !same(known));
        self.reads.push(read);
    }

    fn write(
        &mut self,
        write: GranuleAccess,
        addr: u64,
        is_in_slice: bool,
        clocks: &Clocks<'_>,
        edges: &mut Vec<(RaceEdge, Consumer, Consumer)>,
    ) {
        let thread = write.consumer.thread;
        let own_last_write =
            self.writes.iter().find(|w| w.consumer.thread == thread && w.mask & write.mask != 0);
        let own_last_write = own_last_write.map(|w| w.consumer.step);
        let mut include_edge = |kind, earlier: &GranuleAccess, new: Consumer, known: Consumer| {
            let ordered = clocks.ordered(earlier.when, thread);
            let first = addr + u64::from((earlier.mask & write.mask).trailing_zeros());
            if ordered == OrderedBy::Yes
                || clocks.are_different_stacks(first, earlier.consumer.thread, thread)
            {
                return;
            }
            let location = |consumer: Consumer| (consumer.instruction, consumer.thread);
            let edge = RaceEdge {
                kind,
                from: location(earlier.consumer),
                to: location(write.consumer),
                addr: first,
                by_lock: ordered == OrderedBy::ByLock,
                atomic: earlier.atomic && write.atomic,
            };
            let is_new = |(known, ..): &(RaceEdge, Consumer, Consumer)| {
                (known.kind, known.from, known.to) == (edge.kind, edge.from, edge.to)
            };
            if !edges.iter().any(is_new) {
                edges.push((edge, new, known));
            }
        };
        let others =
            |access: &&GranuleAccess| access.consumer.thread != thread && access.mask & write.mask != 0;
        if is_in_slice {
            for earlier in self.writes.iter().filter(others) {
                include_edge(RaceKind::WriteAfterWrite, earlier, earlier.consumer, write.consumer);
            }
        }
        for earlier in self.reads.iter().filter(others) {
            // Only the first write of a thread after the read counts.
            if own_last_write.is_none_or(|step| step < earlier.consumer.step) {
                include_edge(RaceKind::WriteAfterRead, earlier, write.consumer, earlier.consumer);
            }
        }
        self.writes.retain_mut(|known| {
            if known.consumer.thread == thread {
                known.mask &= !write.mask;
            }
            known.mask != 0
        });
        self.writes.push(write);
    }
}

/// Returns the granules of memory that steps of the closure access; empty if there was only one thread.
fn accessed(history: &dyn History, slice: &Slice) -> HashSet<u64, Hashing> {
    let mut granules = HashSet::default();
    if history.threads() < 2 {
        return granules;
    }
    history.forwards(&mut |step| {
        if slice.steps.contains(step.number) {
            let spans = step.reads.iter().chain(step.writes).chain(step.may_write);
            granules.extend(spans.flat_map(|span| span.granules()).map(|(granule, _)| granule));
        }
    });
    granules
}

/// Forgets accesses to reallocated memory, which is other memory.
fn forget(step: &InstructionStep<'_>, memory: &mut Hashed<u64, GranuleAccesses>) {
    if let Some(ByteSpan { addr, len }) = step.fresh {
        for granule in addr / 8..(addr + len).div_ceil(8) {
            if let Some(accessed) = memory.get_mut(&granule) {
                *accessed = GranuleAccesses::default();
            }
        }
    }
}

/// The number of dependences before and after each reduction: the paper's tables 2 and 3.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// The number of steps.
    pub steps: u64,
    /// Reads of values written by the same thread.
    pub raw_within: u64,
    /// Reads of values written by another thread.
    pub raw_between: u64,
    /// Writes after writes and reads of other threads: all pairs.
    pub before: u64,
    /// Of those, between consecutive accesses: WAW, WAR.
    pub consecutive: [u64; 2],
    /// Of those, between accesses that happens-before does not order: WAW, WAR.
    pub unordered: [u64; 2],
}

#[derive(Default)]
struct GranuleCounts {
    last: Vec<(u8, Epoch)>,
    /// Reads since the latest write.
    reads: Vec<(u8, Epoch)>,
    /// Accesses of each thread so far.
    accesses: Vec<(ThreadIx, u64)>,
}

/// Counts the dependences through memory.
pub fn counts(history: &dyn History, ordering: OrderingInput<'_>) -> Counts {
    let mut counts = Counts::default();
    let mut memory: Hashed<u64, GranuleCounts> = Hashed::default();
    let mut clocks = Clocks::new(ordering);
    history.forwards(&mut |step| {
        counts.steps += 1;
        clocks.advance(step);
        if let Some(span) = step.fresh {
            span.granules().for_each(|(granule, _)| drop(memory.remove(&granule)));
        }
        let now = clocks.now(step.thread);
        let of_program = |span: &&ByteSpan| span.addr < crate::CELLS && span.len <= 4096;
        for (granule, mask) in step.reads.iter().filter(of_program).flat_map(|span| span.granules()) {
            memory.entry(granule).or_default().read(mask, now, &mut counts);
        }
        let writes = step.writes.iter().chain(step.may_write).filter(of_program);
        for (granule, mask) in writes.flat_map(|span| span.granules()) {
            memory.entry(granule).or_default().write(granule * 8, mask, now, &clocks, &mut counts);
        }
    });
    counts
}

impl GranuleCounts {
    fn count(&mut self, thread: ThreadIx) {
        match self.accesses.iter_mut().find(|(t, _)| *t == thread) {
            Some((_, count)) => *count += 1,
            None => self.accesses.push((thread, 1)),
        }
    }

    fn read(&mut self, mask: u8, now: Epoch, counts: &mut Counts) {
        if let Some((_, writer)) = self.last.iter().find(|(m, _)| m & mask != 0) {
            if writer.thread == now.thread {
                counts.raw_within += 1;
            } else {
                counts.raw_between += 1;
            }
        }
        self.count(now.thread);
        match self.reads.iter_mut().find(|(_, when)| when.thread == now.thread) {
            Some(known) => *known = (known.0 | mask, now),
            None => self.reads.push((mask, now)),
        }
    }

    fn write(&mut self, addr: u64, mask: u8, now: Epoch, clocks: &Clocks<'_>, counts: &mut Counts) {
        let others = self.accesses.iter().filter(|(thread, _)| *thread != now.thread);
        counts.before += others.map(|(_, count)| count).sum::<u64>();
        for (kind, list) in [(0, &self.last), (1, &self.reads)] {
            for (_, earlier) in list.iter().filter(|(m, when)| m & mask != 0 && when.thread != now.thread) {
                if clocks.are_different_stacks(addr, earlier.thread, now.thread) {
                    continue;
                }
                counts.consecutive[kind] += 1;
                counts.unordered[kind] += u64::from(clocks.ordered(*earlier, now.thread) == OrderedBy::No);
            }
        }
        self.count(now.thread);
        self.reads.retain_mut(|(m, _)| {
            *m &= !mask;
            *m != 0
        });
        self.last.retain_mut(|(m, _)| {
            *m &= !mask;
            *m != 0
        });
        self.last.push((mask, now));
    }
}
