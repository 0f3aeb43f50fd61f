//! Hashes of the program's state.
//!
//! Two equal hashes mean that the program's threads go on in the same way if they are scheduled in the same way.
//! All writable memory of the program counts, except unused stack, and the registers that survive a call of a
//! hook. The other way round does not hold: frames of the runtime on a thread's stack may hold values that differ
//! from round to round. Then a livelock is not recognised.

use crate::{
    files::OpenFile,
    maps::{self, Mapping},
    stack,
    state::State,
    thread::Thread,
};
use alloc::vec::Vec;
use unsnarl_wire::RUNTIME_MEMORY;

const PAGE: usize = 4096;
/// The part of a thread's unused stack that hooks and handlers may have written.
const UNUSED: usize = 16 << 10;
/// The part of a thread's stack that is compared before all memory is.
const NEAR: usize = 2 << 10;
/// The size of the list of mappings.
const LIST: usize = 256 << 10;
/// The maximum size of a mapping and of all used pages, in pages: comparing more would take too long.
const MAX_MAPPED: usize = 1 << 22;
const MAX_USED: usize = 1 << 16;
/// The number of threads whose unused stack is left out.
const MAX_STACKS: usize = 512;

/// The state of the program at one moment.
#[derive(Clone, Copy)]
pub(crate) struct Fingerprint {
    threads: u64,
    memory: u64,
    /// The number of times that the program looked at something that is not in its memory: the time, random
    /// numbers, and files (calls of `read` and the like, before and after the comparison itself).
    clock: u64,
    random: u64,
    reads_before: u64,
    reads_after: u64,
}

/// Memory for the comparison.
pub(crate) struct FingerprintBuffer {
    list: Vec<u8>,
    /// Unused stack: from, to.
    unused: Vec<(usize, usize)>,
}

impl FingerprintBuffer {
    pub(crate) fn new() -> Self {
        Self { list: alloc::vec![0; LIST], unused: Vec::with_capacity(MAX_STACKS) }
    }
}

impl Fingerprint {
    /// Computes it; `registers` are those of the running thread. Returns `None` if the state cannot be determined:
    /// memory is shared with other processes, there is too much of it, or the system does not reveal it.
    pub(crate) fn of(state: &State, registers: [u64; 8], buffer: &mut FingerprintBuffer) -> Option<Self> {
        let reads_before = count_reads()?;
        let threads = Self::of_threads(state, registers)?;
        buffer.unused.clear();
        for thread in state.threads.iter().filter(|thread| !thread.ended) {
            if buffer.unused.len() == MAX_STACKS {
                return None;
            }
            let pointer = registers_of(state, thread, registers)?[1] as usize;
            buffer.unused.push((pointer.saturating_sub(UNUSED), pointer));
        }
        buffer.unused.sort_unstable();
        let image = state.modules.image(Self::of as *const () as u64)?;
        let memory = hash_memory(buffer, image)?;
        Some(Self {
            threads,
            memory,
            clock: state.clock.reads(),
            random: state.entropy.drawn(),
            reads_before,
            reads_after: count_reads()?,
        })
    }

    /// Returns the hash of the threads alone.
    pub(crate) fn of_threads(state: &State, registers: [u64; 8]) -> Option<u64> {
        let mut hash = 0;
        for thread in state.threads.iter().filter(|thread| !thread.ended) {
            let own = registers_of(state, thread, registers)?;
            let pending = &thread.pending;
            let deadline = match pending.deadline {
                u64::MAX => u64::MAX,
                at => at.saturating_sub(state.clock.now()),
            };
            let words = [
                u64::from(thread.ix.0),
                pending.op as u64,
                pending.pc,
                pending.addr,
                deadline,
                u64::from(thread.granted.is_some()),
                thread.mask,
            ];
            hash = words.into_iter().chain(own).fold(hash, mix);
            let pointer = own[1] as usize & !7;
            let end = thread.stack_top.min(pointer + NEAR) & !7;
            hash = hash_words(hash, pointer, end.max(pointer));
        }
        Some(hash)
    }

    pub(crate) const fn threads(&self) -> u64 {
        self.threads
    }

    /// Returns whether the threads and the memory are in the same state.
    pub(crate) const fn is_same_state(&self, other: &Self) -> bool {
        self.threads == other.threads && self.memory == other.memory
    }

    /// Returns whether the program looked at nothing outside its memory since an earlier fingerprint.
    pub(crate) const fn follows(&self, earlier: &Self) -> bool {
        // The last count was itself a read.
        self.clock == earlier.clock
            && self.random == earlier.random
            && self.reads_before == earlier.reads_after + 1
    }

    /// Lets later fingerprints be compared with this state as of now.
    pub(crate) const fn renew(&mut self, now: &Self) {
        self.reads_after = now.reads_after;
    }
}

/// Returns the registers of a thread that belong to its state: rip, rsp, rbp, rbx, r12 to r15.
fn registers_of(state: &State, thread: &Thread, running: [u64; 8]) -> Option<[u64; 8]> {
    if thread.ix == state.current {
        return Some(running);
    }
    thread.context.is_saved().then(|| stack::registers_of_thread(thread.context.registers()))
}

/// Returns the number of calls of `read` and the like that this process has made.
fn count_reads() -> Option<u64> {
    const FIELD: &[u8] = b"syscr: ";
    let mut text = [0; 512];
    let length = usize::try_from(OpenFile::new(b"/proc/self/io\0")?.read(&mut text)).ok()?;
    let line = text[..length].split(|&byte| byte == b'\n').find_map(|line| line.strip_prefix(FIELD))?;
    line.iter().try_fold(0u64, |number, &digit| Some(number * 10 + u64::from(digit.checked_sub(b'0')?)))
}

/// Hashes all writable memory of the program. `image` is the runtime's own.
fn hash_memory(buffer: &mut FingerprintBuffer, image: (u64, u64)) -> Option<u64> {
    let FingerprintBuffer { list, unused } = buffer;
    let mappings = OpenFile::new(b"/proc/self/maps\0")?;
    let mut length = 0;
    while let read @ 1.. = mappings.read(&mut list[length..]) {
        length += read as usize;
    }
    if length == list.len() {
        return None;
    }
    let pagemap = OpenFile::new(b"/proc/self/pagemap\0")?;
    let (mut hash, mut used) = (0, 0);
    for mapping in maps::parse(&list[..length]) {
        if mapping.is_shared() {
            return None;
        }
        let start = mapping.start as u64;
        let is_runtime = RUNTIME_MEMORY.iter().any(|range| range.contains(&start))
            || (image.0..image.1.next_multiple_of(PAGE as u64)).contains(&start);
        if mapping.is_own() && !is_runtime {
            hash = hash_mapping(hash, &mapping, &pagemap, unused, &mut used)?;
        }
    }
    Some(hash)
}

/// Hashes the pages of a mapping that hold data, except unused stack.
fn hash_mapping(
    mut hash: u64,
    mapping: &Mapping,
    pagemap: &OpenFile,
    unused: &[(usize, usize)],
    used: &mut usize,
) -> Option<u64> {
    const AT_ONCE: usize = 512;
    let pages = (mapping.end - mapping.start) / PAGE;
    if pages > MAX_MAPPED {
        return None;
    }
    let mut entries = [0; AT_ONCE * 8];
    for first in (0..pages).step_by(AT_ONCE) {
        let count = AT_ONCE.min(pages - first);
        let from = mapping.start + first * PAGE;
        let bytes = &mut entries[..count * 8];
        if pagemap.read_at(from / PAGE * 8, bytes) != bytes.len() as isize {
            return None;
        }
        for (nth, entry) in bytes.as_chunks::<8>().0.iter().enumerate() {
            if holds_data(u64::from_le_bytes(*entry)) {
                *used += 1;
                hash = hash_page(mix(hash, (from + nth * PAGE) as u64), from + nth * PAGE, unused);
            }
        }
        if *used > MAX_USED {
            return None;
        }
    }
    Some(hash)
}

/// Returns whether a page with this entry in `/proc/self/pagemap` holds data that is in no file.
const fn holds_data(entry: u64) -> bool {
    const PRESENT: u64 = 1 << 63;
    const SWAPPED: u64 = 1 << 62;
    const OF_FILE: u64 = 1 << 61;
    /// A guard looks like a swapped page.
    const GUARD: u64 = 1 << 58;
    entry & SWAPPED != 0 && entry & GUARD == 0 || entry & PRESENT != 0 && entry & OF_FILE == 0
}

/// Hashes a page without the unused stack in it.
fn hash_page(mut hash: u64, page: usize, unused: &[(usize, usize)]) -> u64 {
    let end = page + PAGE;
    let mut at = page;
    // They are sorted by their beginnings.
    for &(from, to) in unused.iter().filter(|&&(from, to)| from < end && page < to) {
        if at < from {
            hash = hash_words(hash, at, from & !7);
        }
        at = at.max((to & !7).min(end));
    }
    hash_words(hash, at, end)
}

/// Hashes readable memory; both addresses are multiples of 8.
fn hash_words(hash: u64, from: usize, to: usize) -> u64 {
    // SAFETY: pages of the program that are present and not execute-only; nothing runs that writes them.
    (from..to).step_by(8).fold(hash, |hash, at| mix(hash, unsafe { (at as *const u64).read_volatile() }))
}

/// Mixes a word into a hash.
#[inline]
pub(crate) const fn mix(hash: u64, word: u64) -> u64 {
    let mixed = (hash.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ mixed >> 32
}
