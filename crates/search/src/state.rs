//! A hash of the state after some steps of a run. Sequences that differ only in the order of independent
//! operations have the same hash.
//!
//! As in CHESS (Musuvathi and Qadeer, "Iterative Context Bounding for Systematic Testing of Multithreaded
//! Programs", PLDI 2007, section 4.3), the happens-before graph represents the state. The hash of an event
//! covers its operation, its thread's previous event, and the earlier dependent events on the same object.
//! The sum over all events does not depend on the order of independent events.
//!
//! The simplifier's `Fingerprints` represent states by the same graph, for another use: they are part of proofs
//! on disk, compare orders of different runs, and are computed from the complete graph of one trace. This hash
//! lives as long as one search. It is updated event by event, because a search reads each run once. It knows
//! threads by their indices and memory by address, which are the same in all runs of a search.

use crate::block_map::BlockMap;
use std::{
    collections::HashMap,
    hash::{BuildHasherDefault, Hasher},
};
use unsnarl_model::{Event, Flags, Op, Site, ThreadIx};
use unsnarl_semantics::{
    AccessMode, ByteRange, OpResult, SharedObject, Touch,
    dependence::{Relation, Rules},
};

/// A map whose keys are addresses and numbers of the program under test, so no attack on the hash is feared.
type FastMap<K, V> = HashMap<K, V, BuildHasherDefault<MixHasher>>;

/// Returns a hash of the happens-before graph of a run, equal for runs that differ only in the order of independent
/// operations.
pub fn schedule_class(events: impl IntoIterator<Item = (Event, Site)>) -> u64 {
    let mut state = StateHash::default();
    events.into_iter().for_each(|(event, site)| state.step(&event, site));
    state.number()
}

/// The happens-before graph of the events so far.
#[derive(Debug)]
pub(crate) struct StateHash {
    sum: u64,
    relation: Relation,
    touches: Vec<Touch>,
    threads: FastMap<ThreadIx, u64>,
    objects: FastMap<SharedObject, LastAccesses>,
    /// By the address of eight bytes.
    words: FastMap<u64, LastAccesses>,
    /// The last allocation or free of memory that was not accessed since.
    blocks: BlockMap,
}

/// The last event that changed a resource, and the reads since.
#[derive(Clone, Copy, Debug, Default)]
struct LastAccesses {
    write: u64,
    reads: u64,
}

impl LastAccesses {
    /// Returns the past that an access in this mode depends on.
    const fn past(self, mode: AccessMode) -> u64 {
        match mode {
            AccessMode::Reads => self.write,
            AccessMode::Writes => mix(self.write, self.reads),
        }
    }

    const fn access(&mut self, mode: AccessMode, event: u64) {
        match mode {
            AccessMode::Reads => self.reads = self.reads.wrapping_add(event),
            AccessMode::Writes => *self = Self { write: event, reads: 0 },
        }
    }
}

impl Default for StateHash {
    fn default() -> Self {
        let rules = Rules { end: false, ..Rules::default() };
        Self {
            sum: 0,
            relation: Relation::new(rules),
            touches: Vec::new(),
            threads: FastMap::default(),
            objects: FastMap::default(),
            words: FastMap::default(),
            blocks: BlockMap::default(),
        }
    }
}

impl StateHash {
    /// Returns the hash.
    pub(crate) fn number(&self) -> u64 {
        self.sum
    }

    /// Processes one more event at this site.
    pub(crate) fn step(&mut self, event: &Event, site: Site) {
        let mut touches = std::mem::take(&mut self.touches);
        touches.clear();
        self.relation.touches(event, &mut touches);
        if depends_on_environment(event) {
            touches.push(Touch::SharedObject(SharedObject::Time, AccessMode::Writes));
        }
        // Values and addresses follow from the earlier events; the woken threads are part of the order
        // itself.
        let facts =
            event.flags.0 & !(Flags::PREEMPTS | Flags::BLOCKED | Flags::FOREIGN | Flags::MAY_BE_ORDERED).0;
        let operation = mix(u64::from(event.op as u8) | u64::from(facts) << 8, number_of(site));
        let mut hash = mix(self.thread(event.thread), operation);
        for touch in &touches {
            hash = mix(hash, self.past(touch, event));
        }
        for touch in &touches {
            self.enter(touch, event, hash);
        }
        self.threads.insert(event.thread, hash);
        self.sum = self.sum.wrapping_add(hash);
        self.touches = touches;
    }

    fn thread(&self, thread: ThreadIx) -> u64 {
        self.threads.get(&thread).copied().unwrap_or(u64::from(thread.0) + 1)
    }

    /// Returns the past of what the event touches.
    fn past(&self, touch: &Touch, event: &Event) -> u64 {
        match *touch {
            Touch::SharedObject(object, mode) => self.objects.get(&object).map_or(0, |last| last.past(mode)),
            Touch::Bytes(ByteRange { first, len }, mode) if is_block(event) => {
                let last = self.words_within(first, len).map(|word| self.words[&word].past(mode));
                last.chain(self.blocks.overlapping(first, len)).fold(0, u64::wrapping_add)
            }
            Touch::Bytes(ByteRange { first, len }, mode) => {
                let past = |word| match self.words.get(&word) {
                    Some(last) => last.past(mode),
                    None => self.blocks.overlapping(word, 8).fold(0, u64::wrapping_add),
                };
                words(first, len).map(past).fold(0, mix)
            }
            Touch::After(thread) | Touch::Pin(thread) => self.thread(thread),
            Touch::Fence => self.sum,
            Touch::Before(_) | Touch::Forget(_) => 0,
        }
    }

    /// Records that an event with this hash touches something.
    fn enter(&mut self, touch: &Touch, event: &Event, hash: u64) {
        match *touch {
            Touch::SharedObject(object, mode) => {
                self.objects.entry(object).or_default().access(mode, hash);
            }
            Touch::Bytes(ByteRange { first, len }, _) if is_block(event) => {
                let forgotten: Vec<u64> = self.words_within(first, len).collect();
                for word in forgotten {
                    self.words.remove(&word);
                }
                self.blocks.insert(first, len, hash);
            }
            Touch::Bytes(ByteRange { first, len }, mode) => {
                for word in words(first, len) {
                    let block = || self.blocks.overlapping(word, 8).fold(0, u64::wrapping_add);
                    let last =
                        self.words.entry(word).or_insert_with(|| LastAccesses { write: block(), reads: 0 });
                    last.access(mode, hash);
                }
            }
            Touch::Before(thread) | Touch::Pin(thread) => {
                let next = mix(self.thread(thread), hash);
                self.threads.insert(thread, next);
            }
            Touch::Fence => self.threads.values_mut().for_each(|thread| *thread = mix(*thread, hash)),
            Touch::After(_) | Touch::Forget(_) => {}
        }
    }

    /// Returns the accessed words of a block.
    fn words_within(&self, first: u64, len: u64) -> impl Iterator<Item = u64> {
        let all = words(first, len);
        // Blocks can be much larger than what was accessed.
        let scans = len / 8 > self.words.len() as u64;
        let known = scans.then(|| self.words.keys().copied().filter(move |word| all.contains_word(*word)));
        let present = (!scans).then(|| all.filter(|word| self.words.contains_key(word)));
        known.into_iter().flatten().chain(present.into_iter().flatten())
    }
}

/// Returns whether the event allocates or frees a block of memory.
const fn is_block(event: &Event) -> bool {
    matches!(event.op, Op::Alloc | Op::Free)
}

/// Returns whether the event depends on state that other events do not show: time, the heap's free blocks, and
/// whether the program still runs.
fn depends_on_environment(event: &Event) -> bool {
    matches!(event.op, Op::Sleep | Op::Exit | Op::Alloc | Op::Free)
        || OpResult::of(event) == OpResult::TimedOut
}

/// The aligned words that a range of bytes covers.
#[derive(Clone, Copy, Debug)]
struct Words {
    next: u64,
    last: u64,
    is_done: bool,
}

const fn words(first: u64, len: u64) -> Words {
    let last = first.saturating_add(if len == 0 { 0 } else { len - 1 });
    Words { next: first & !7, last: last & !7, is_done: false }
}

impl Words {
    const fn contains_word(&self, word: u64) -> bool {
        self.next <= word && word <= self.last
    }
}

impl Iterator for Words {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        if self.is_done {
            return None;
        }
        let word = self.next;
        self.is_done = word >= self.last;
        self.next = word.wrapping_add(8);
        Some(word)
    }
}

/// Returns a number for a site that is the same in every run.
pub(crate) const fn number_of(site: Site) -> u64 {
    mix(site.module.0 as u64, site.offset)
}

pub(crate) const fn mix(hash: u64, with: u64) -> u64 {
    let z = (hash.rotate_left(23) ^ with).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z ^ (z >> 29)
}

/// Hashes by [`mix`].
#[derive(Clone, Copy, Debug, Default)]
struct MixHasher(u64);

impl Hasher for MixHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(byte.into()));
    }

    fn write_u16(&mut self, number: u16) {
        self.write_u64(number.into());
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = mix(self.0, number);
    }

    fn write_isize(&mut self, number: isize) {
        self.write_u64(number as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use unsnarl_model::{ModuleIx, Order, SiteIx, ThreadIx};

    fn event(thread: u16, op: Op, addr: u64) -> Event {
        Event {
            thread: ThreadIx(thread),
            op,
            flags: Flags::NONE,
            order: Order::SeqCst,
            site: SiteIx(u32::from(thread)),
            context: 0,
            size: 4,
            addr,
            value: 0,
        }
    }

    fn site(event: &Event) -> Site {
        Site { module: ModuleIx(0), offset: event.site.0.into() }
    }

    fn number(events: &[Event]) -> u64 {
        let mut state = StateHash::default();
        events.iter().for_each(|event| state.step(event, site(event)));
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

    #[test]
    fn free_does_not_commute_with_accesses_to_the_block() {
        let free = Event { size: 1 << 30, ..event(0, Op::Free, 0x1000) };
        for op in [Op::Read, Op::Write, Op::AtomicLoad] {
            let access = event(1, op, 0x1010);
            assert_ne!(number(&[free, access]), number(&[access, free]), "{op:?}");
            let later = event(2, Op::Write, 0x1010);
            assert_ne!(number(&[free, access, later]), number(&[access, free, later]), "{op:?}");
            let outside = event(1, op, 0x0ff0);
            assert_eq!(number(&[free, outside]), number(&[outside, free]), "{op:?}");
        }
    }

    #[test]
    fn end_of_initialisation_does_not_commute_with_a_load_of_the_guard() {
        let begin = event(0, Op::OnceBegin, 0x10);
        let (end, load) = (event(0, Op::OnceEnd, 0x10), event(1, Op::AtomicLoad, 0x10));
        assert_ne!(number(&[begin, end, load]), number(&[begin, load, end]));
    }

    #[test]
    fn cancellation_does_not_commute_with_operations_of_its_target() {
        let cancel = Event { value: 1, ..event(0, Op::Cancel, 0) };
        let point = event(1, Op::SemWait, 0x10);
        assert_ne!(number(&[cancel, point]), number(&[point, cancel]));
    }

    #[test]
    fn every_site_and_every_flag_counts() {
        let write = event(0, Op::Write, 0x10);
        let number = |event: Event, module: u16, offset: u64| {
            let mut state = StateHash::default();
            state.step(&event, Site { module: ModuleIx(module), offset });
            state.number()
        };
        let numbers = [
            number(write, 0, 0x100_0123),
            number(write, 1, 0x123),
            number(write, 0, 0x1_0000_0123),
            number(write, 0, 0x123),
            number(Event { flags: Flags::BOUNDED, ..write }, 0, 0x122),
            number(Event { flags: Flags::UNDIVIDED, ..write }, 0, 0x121),
        ];
        let different: std::collections::BTreeSet<u64> = numbers.into();
        assert_eq!(different.len(), numbers.len());
    }
}
