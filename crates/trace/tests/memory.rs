//! Reading takes memory in proportion to the file, whatever the file claims.

mod looping;

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
};
use unsnarl_model::{Action, ModuleIx, Op, Segment, Site, ThreadIx};
use unsnarl_trace::{EventReader, decode, encode};

/// Counts the memory held by the current thread, and its peak.
struct Counting;

thread_local! {
    static HELD: Cell<usize> = const { Cell::new(0) };
    static PEAK: Cell<usize> = const { Cell::new(0) };
}

fn count(more: usize, less: usize) {
    HELD.set((HELD.get() + more).saturating_sub(less));
    PEAK.set(PEAK.get().max(HELD.get()));
}

// SAFETY: every call is forwarded unchanged to the system's allocator; counting does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 0);
        // SAFETY: the caller upholds the contract of this same function.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(0, layout.size());
        // SAFETY: as above.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // Old and new may exist at the same time.
        count(size, 0);
        count(0, layout.size());
        // SAFETY: as above.
        unsafe { System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Returns the peak of memory held while this runs, beyond what was held before.
fn most_held<T>(run: impl FnOnce() -> T) -> usize {
    let before = HELD.get();
    PEAK.set(before);
    drop(run());
    PEAK.get() - before
}

/// The limit that `section::UnpackBudget` promises.
fn limit(file: &[u8]) -> usize {
    (32 << 20) + 128 * file.len()
}

fn check(label: &str, file: &[u8]) {
    let held = most_held(|| decode(file));
    assert!(held <= limit(file), "{label}: {held} bytes for a file of {}", file.len());
}

fn header(tag: &[u8], unpacked: u64, packed: u64, content: &[u8]) -> Vec<u8> {
    let mut bytes = tag.to_vec();
    bytes.extend(unpacked.to_le_bytes());
    bytes.extend(packed.to_le_bytes());
    bytes.extend(crc32fast::hash(content).to_le_bytes());
    bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
    bytes
}

const START: &[u8] = b"unsnarl\0\x01\0\0\0";

#[test]
fn false_lengths_are_rejected() {
    for length in [1 << 20, 1 << 31, 1 << 40, u64::MAX] {
        let content = zstd::bulk::compress(&[0; 64], 3).unwrap();
        for (unpacked, packed) in
            [(length, content.len() as u64), (64, length), (length, length), (length, 1 << 20)]
        {
            let file = [START, &header(b"prog", unpacked, packed, &content), &content].concat();
            assert!(decode(&file).is_err());
            check("a lie", &file);
        }
        // A list that claims this length, in a section that fits.
        let content = zstd::bulk::compress(&length.to_le_bytes().repeat(8), 3).unwrap();
        let file = [START, &header(b"prog", 64, content.len() as u64, &content), &content].concat();
        assert!(decode(&file).is_err());
        check("a long list", &file);
    }
}

#[test]
fn decompression_bomb_is_rejected() {
    let content = zstd::bulk::compress(&vec![0; 256 << 20], 3).unwrap();
    assert!(content.len() < 64 << 10);
    let honest = [START, &header(b"prog", 256 << 20, content.len() as u64, &content), &content].concat();
    let lying = [START, &header(b"prog", 1 << 20, content.len() as u64, &content), &content].concat();
    for file in [honest, lying] {
        assert!(decode(&file).is_err());
        let held = most_held(|| decode(&file));
        assert!(held < 4 << 20, "{held}");
    }
}

#[test]
fn worst_case_traces_stay_within_memory_limit() {
    let mut same = looping::trace(1);
    same.events = vec![same.events[0]; 1_000_000];
    check("one event repeated", &encode(&same));

    let mut plan = looping::trace(1);
    plan.plan = plan.replay_plan();
    let action = Action { op: Op::Lock, site: Site { module: ModuleIx(0), offset: 0 } }.into();
    plan.plan.prefix.actions = vec![action; 1_000_000];
    plan.plan.prefix.segments = vec![Segment { thread: ThreadIx(0), points: 1 }; 1_000_000];
    assert!(decode(&encode(&plan)).is_ok());
    check("one action repeated", &encode(&plan));

    let mut empty = looping::trace(1);
    empty.program.args = vec![Vec::new(); 2_000_000];
    empty.program.env = vec![Vec::new(); 2_000_000];
    check("nothing repeated", &encode(&empty));
}

#[test]
fn streaming_needs_memory_for_one_chunk() {
    let trace = looping::trace(1_000_000);
    let file = encode(&trace);
    let events = size_of_val(&*trace.events);
    let held = most_held(|| decode(&file).unwrap());
    assert!(held < events + (8 << 20), "{held} for {events}");
    let held = most_held(|| {
        let mut reader = EventReader::new(&*file).unwrap();
        while reader.next_chunk().unwrap().is_some() {}
    });
    assert!(held < 8 << 20, "{held}");
}

#[test]
fn damaged_files_stay_within_memory_limit() {
    let file = encode(&looping::trace(70_000));
    let mut random = 7_u64;
    for _ in 0..300 {
        let mut damaged = file.clone();
        for _ in 0..3 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let at = (random >> 33) as usize % damaged.len().min(400);
            damaged[at] = (random >> 20) as u8;
        }
        check("damaged", &damaged);
    }
}
