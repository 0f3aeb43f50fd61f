//! A hash of the state after some steps of a run. Sequences that differ only in the order of independent
//! operations have the same hash.
//!
//! As in CHESS (Musuvathi and Qadeer, "Iterative Context Bounding for Systematic Testing of Multithreaded
//! Programs", PLDI 2007, section 4.3), the happens-before graph represents the state. The hash of an event
//! covers its operation, its thread's previous event, and the earlier dependent events on the same object.
//! The sum over all events does not depend on the order of independent events.

use std::collections::HashMap;
use unsnarl_model::{Event, Flags, ObjectKind, Op};

/// The happens-before graph of the events so far.
#[derive(Debug, Default)]
pub(crate) struct StateHash {
    sum: u64,
    threads: HashMap<u16, u64>,
    resources: HashMap<Resource, LastAccesses>,
}

/// A resource through which events can depend on each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Resource {
    /// Eight bytes of memory, by their address.
    Memory(u64),
    /// A lock, a condition …
    Object(u64),
    Thread(u64),
    /// The clock, the heap, the end of the program.
    Environment,
}

/// The last event that changed a resource, and the reads since.
#[derive(Clone, Copy, Debug, Default)]
struct LastAccesses {
    write: u64,
    reads: u64,
}

impl StateHash {
    /// Returns the hash.
    pub(crate) fn number(&self) -> u64 {
        self.sum
    }

    /// Processes one more event.
    pub(crate) fn step(&mut self, event: &Event) {
        let mut hash = self.threads.get(&event.thread.0).copied().unwrap_or(u64::from(event.thread.0) + 1);
        // Values and addresses follow from the earlier events; the woken threads are part of the order
        // itself.
        let facts = event.flags.0 & !(Flags::PREEMPTS | Flags::BLOCKED | Flags::FOREIGN).0;
        hash = mix(hash, u64::from(event.op as u8) | u64::from(facts) << 8 | u64::from(event.site.0) << 16);
        let looks_only =
            event.op.only_reads() || (event.op == Op::AtomicCas && event.flags.has(Flags::FAILED));
        let mut resources = Vec::with_capacity(2);
        resources_of(event, &mut resources);
        for resource in &resources {
            let last = self.resources.get(resource).copied().unwrap_or_default();
            hash = mix(hash, last.write);
            if !looks_only {
                hash = mix(hash, last.reads);
            }
        }
        for resource in resources {
            let last = self.resources.entry(resource).or_default();
            if looks_only {
                last.reads = last.reads.wrapping_add(hash);
            } else {
                *last = LastAccesses { write: hash, reads: 0 };
            }
        }
        self.threads.insert(event.thread.0, hash);
        self.sum = self.sum.wrapping_add(hash);
    }
}

fn resources_of(event: &Event, resources: &mut Vec<Resource>) {
    match event.op {
        Op::Start | Op::End => resources.push(Resource::Thread(event.thread.0.into())),
        Op::Create | Op::Join | Op::Detach | Op::Cancel => resources.push(Resource::Thread(event.value)),
        Op::CondWait => resources.extend([Resource::Object(event.addr), Resource::Object(event.value)]),
        Op::Sleep | Op::Exit | Op::Alloc | Op::Free => resources.push(Resource::Environment),
        // No event shows which descriptors a wait covers, or which descriptor numbers are free.
        op if op.object_kind() == Some(ObjectKind::Channel) => resources.push(Resource::Environment),
        // Nor which threads may take a signal.
        op if op.is_signalling() => resources.push(Resource::Environment),
        Op::Yield | Op::Fence | Op::Cancelled => {}
        op if op.object_kind() == Some(ObjectKind::Memory) => {
            let end = event.addr.saturating_add(u64::from(event.size.max(1)));
            let mut word = event.addr & !7;
            while word < end {
                resources.push(Resource::Memory(word));
                word += 8;
            }
        }
        _ => resources.push(Resource::Object(event.addr)),
    }
    if event.flags.has(Flags::TIMED_OUT) {
        resources.push(Resource::Environment);
    }
}

pub(crate) const fn mix(hash: u64, with: u64) -> u64 {
    let z = (hash.rotate_left(23) ^ with).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z ^ (z >> 29)
}

#[cfg(test)]
mod tests {
    use super::*;
    use unsnarl_model::{Order, SiteIx, ThreadIx};

    fn event(thread: u16, op: Op, addr: u64) -> Event {
        Event {
            thread: ThreadIx(thread),
            op,
            flags: Flags::NONE,
            order: Order::SeqCst,
            site: SiteIx(u32::from(thread)),
            size: 4,
            addr,
            value: 0,
        }
    }

    fn number(events: &[Event]) -> u64 {
        let mut state = StateHash::default();
        events.iter().for_each(|event| state.step(event));
        state.number()
    }

    #[test]
    fn only_independent_operations_commute() {
        let (a, b) = (event(0, Op::Write, 0x10), event(1, Op::Write, 0x20));
        assert_eq!(number(&[a, b]), number(&[b, a]));
        let c = event(1, Op::Write, 0x12);
        assert_ne!(number(&[a, c]), number(&[c, a]));
        let (r, s) = (event(0, Op::Read, 0x10), event(1, Op::Read, 0x10));
        assert_eq!(number(&[r, s]), number(&[s, r]));
        assert_ne!(number(&[r, c]), number(&[c, r]));
        let (l, m) = (event(0, Op::Lock, 0x10), event(1, Op::Lock, 0x10));
        assert_ne!(number(&[l, m]), number(&[m, l]));
    }
}
