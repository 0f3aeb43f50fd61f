//! Plain accesses that are no schedule points, logged in one more run of a schedule.

use crate::{Event, Op, SiteIx, ThreadIx, Trace};
use alloc::{collections::BTreeMap, vec::Vec};

/// A plain access, an allocation or a free, whether or not it was a schedule point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoggedAccess {
    /// The access, as its event is or would be.
    pub access: Event,
    /// The contents after a write of up to 8 bytes, if they are known.
    pub written: Option<u64>,
    /// The number of events before it.
    pub events_before: u64,
    /// True if it was a schedule point: then it is the event with the number `events_before`.
    pub is_event: bool,
}

/// The next steps of a preempted thread, had it not been preempted.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Continuation {
    /// The number of the preempting event.
    pub event: u64,
    /// The thread's next operations, up to its first wait.
    pub steps: Vec<LoggedAccess>,
}

impl Trace {
    /// Takes the accesses over from a run of the same schedule: those to memory that several threads touched.
    pub fn take_accesses(&mut self, logged: &Self) {
        let (shared, since) = shared_accesses(&logged.accesses);
        self.accesses_since = since.max(logged.accesses_since);
        self.accesses = self.with_own_sites(logged, shared);
    }

    /// Adds what the thread that was preempted at this event executes in a run that continues with it.
    pub fn add_continuation(&mut self, event: u64, logged: &Self) {
        const MOST: usize = 256;
        let Some(before) = (event as usize).checked_sub(1).and_then(|last| self.events.get(last)) else {
            return;
        };
        let thread = before.thread;
        let events = logged.events.iter().enumerate().skip(event as usize);
        let until =
            events.clone().find(|(_, e)| e.thread != thread).map_or(logged.events.len(), |(at, _)| at);
        let mut steps: Vec<LoggedAccess> = logged
            .accesses
            .iter()
            .filter(|step| step.access.thread == thread)
            .filter(|step| (event..until as u64).contains(&step.events_before))
            .copied()
            .collect();
        let of_accesses =
            |at: usize| steps.iter().any(|step| step.is_event && step.events_before == at as u64);
        let others: Vec<LoggedAccess> = events
            .take(until - (event as usize).min(until))
            .filter(|&(at, _)| !of_accesses(at))
            .map(|(at, &access)| LoggedAccess {
                access,
                written: None,
                events_before: at as u64,
                is_event: true,
            })
            .collect();
        steps.extend(others);
        // Accesses that are no events come before the event with the same number.
        steps.sort_by_key(|step| (step.events_before, step.is_event));
        steps.truncate(MOST);
        let steps = self.with_own_sites(logged, steps);
        self.continuations.push(Continuation { event, steps });
    }

    /// Removes the accesses that are no events: the order of events is about to change.
    pub fn forget_accesses(&mut self) {
        self.accesses.clear();
        self.accesses_since = 0;
        self.continuations.clear();
    }

    /// Replaces the sites of another trace with the same modules by this trace's own.
    fn with_own_sites(&mut self, other: &Self, mut all: Vec<LoggedAccess>) -> Vec<LoggedAccess> {
        let mut known: BTreeMap<SiteIx, SiteIx> = BTreeMap::new();
        for logged in &mut all {
            let site = other.site(&logged.access);
            logged.access.site = *known.entry(logged.access.site).or_insert_with(|| {
                let own = self.sites.iter().position(|own| *own == site).unwrap_or_else(|| {
                    self.sites.push(site);
                    if !self.callers.is_empty() {
                        self.callers.push(site);
                    }
                    self.sites.len() - 1
                });
                SiteIx(own as u32)
            });
        }
        all
    }
}

/// The largest number of accesses that a trace keeps: the last ones.
const MOST_KEPT: usize = 1 << 17;
/// Larger accesses are kept without looking at each of their bytes.
const LARGE: u64 = 1 << 12;

/// Returns the accesses to memory that several threads touched and one of them wrote, and what happened to blocks of
/// memory; and the number of events before which some are missing.
fn shared_accesses(all: &[LoggedAccess]) -> (Vec<LoggedAccess>, u64) {
    /// The use of the eight bytes of a word; a bit for each byte.
    #[derive(Clone, Copy, Default)]
    struct WordUse {
        first: [ThreadIx; 8],
        used: u8,
        shared: u8,
        written: u8,
    }
    let words = |logged: &LoggedAccess| {
        let Event { addr, size, .. } = logged.access;
        let end = addr.saturating_add(size.min(LARGE));
        (addr / 8..end.div_ceil(8)).map(move |word| {
            let is_in = |byte: &u64| (addr..end).contains(&(8 * word + byte));
            (word, (0..8).filter(is_in).fold(0_u8, |bits, byte| bits | 1 << byte))
        })
    };
    let is_access = |logged: &LoggedAccess| matches!(logged.access.op, Op::Read | Op::Write);
    let mut uses: BTreeMap<u64, WordUse> = BTreeMap::new();
    for logged in all.iter().filter(|logged| is_access(logged)) {
        let thread = logged.access.thread;
        for (word, bytes) in words(logged) {
            let known = uses.entry(word).or_default();
            for byte in (0..8).filter(|byte| bytes & 1 << byte != 0) {
                if known.used & 1 << byte == 0 {
                    known.first[byte] = thread;
                } else if known.first[byte] != thread {
                    known.shared |= 1 << byte;
                }
            }
            known.used |= bytes;
            known.written |= if logged.access.op == Op::Write { bytes } else { 0 };
        }
    }
    let is_kept = |logged: &&LoggedAccess| {
        !is_access(logged)
            || logged.is_event
            || words(logged).any(|(word, bytes)| uses[&word].shared & uses[&word].written & bytes != 0)
    };
    let kept: Vec<LoggedAccess> = all.iter().filter(is_kept).copied().collect();
    let dropped = kept.len().saturating_sub(MOST_KEPT);
    let since = if dropped > 0 { kept[dropped].events_before + 1 } else { 0 };
    (kept[dropped..].to_vec(), since)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Flags, Site};
    use alloc::vec;

    fn access(thread: u16, op: Op, addr: u64) -> LoggedAccess {
        let access = Event { size: 4, addr, flags: Flags::NONE, ..Event::new(ThreadIx(thread), op) };
        LoggedAccess { access, written: None, events_before: 0, is_event: false }
    }

    #[test]
    fn only_accesses_to_shared_memory_that_is_written_are_kept() {
        let all = [
            access(0, Op::Write, 0x10),
            access(1, Op::Read, 0x12),
            access(0, Op::Write, 0x20),
            access(0, Op::Read, 0x30),
            access(1, Op::Read, 0x30),
            access(1, Op::Free, 0x40),
        ];
        let (kept, since) = shared_accesses(&all);
        assert_eq!(since, 0);
        let kept: Vec<u64> = kept.iter().map(|logged| logged.access.addr).collect();
        assert_eq!(kept, [0x10, 0x12, 0x40]);
    }

    #[test]
    fn continuation_ends_when_another_thread_runs() {
        let event = |thread, op| Event::new(ThreadIx(thread), op);
        let mut trace = Trace {
            sites: vec![Site::default()],
            events: vec![event(1, Op::Lock), event(0, Op::Lock)],
            ..Trace::default()
        };
        let mut next = access(1, Op::Write, 8);
        next.events_before = 1;
        let mut late = next;
        late.events_before = 3;
        let logged = Trace {
            sites: vec![Site::default()],
            events: vec![event(1, Op::Lock), event(1, Op::Unlock), event(1, Op::Join), event(0, Op::Lock)],
            accesses: vec![next, late],
            ..Trace::default()
        };
        trace.add_continuation(1, &logged);
        let steps: Vec<Op> = trace.continuations[0].steps.iter().map(|step| step.access.op).collect();
        assert_eq!(steps, [Op::Write, Op::Unlock, Op::Join]);
    }
}
