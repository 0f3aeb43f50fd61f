//! The runtime's memory: the target's malloc is never used, so the target's heap does not depend on the
//! runtime.

use crate::sys;
use core::{
    alloc::{GlobalAlloc, Layout},
    cell::UnsafeCell,
    ptr,
};

const CHUNK: usize = 1 << 20;

/// Allocates sequentially and frees only the latest piece: tables here grow and stay.
///
/// Data that depends on the plan has separate memory ([`with_plan_heap`]): a program that reads uninitialised
/// memory or registers may find addresses of the runtime there, and they should be the same under every plan.
struct Heap {
    chunks: UnsafeCell<[Chunk; 2]>,
    for_plan: UnsafeCell<bool>,
}

struct Chunk {
    at: usize,
    end: usize,
}

// SAFETY: only the carrier allocates (see the crate's documentation).
unsafe impl Sync for Heap {}

#[global_allocator]
static HEAP: Heap = Heap {
    chunks: UnsafeCell::new([const { Chunk { at: 0, end: 0 } }; 2]),
    for_plan: UnsafeCell::new(false),
};

/// Runs a job that allocates memory depending on the plan.
pub(crate) fn with_plan_heap<T>(job: impl FnOnce() -> T) -> T {
    // SAFETY: called on the carrier.
    let before = unsafe { HEAP.for_plan.get().replace(true) };
    let done = job();
    // SAFETY: as above.
    unsafe { HEAP.for_plan.get().write(before) };
    done
}

// SAFETY: pieces never overlap, are aligned as requested, and do not move until freed.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: no other reference exists: allocation does not call back.
        let (chunks, for_plan) = unsafe { (&mut *self.chunks.get(), *self.for_plan.get()) };
        let chunk = &mut chunks[usize::from(for_plan)];
        let mut at = chunk.at.next_multiple_of(layout.align());
        if at + layout.size() > chunk.end || chunk.at == 0 {
            let size = layout.size().next_multiple_of(CHUNK).max(CHUNK);
            let Some(start) = sys::map(size, for_plan) else { return ptr::null_mut() };
            *chunk = Chunk { at: start, end: start + size };
            at = start;
        }
        chunk.at = at + layout.size();
        at as *mut u8
    }

    unsafe fn dealloc(&self, piece: *mut u8, layout: Layout) {
        // SAFETY: as above.
        let chunks = unsafe { &mut *self.chunks.get() };
        for chunk in chunks {
            if piece as usize + layout.size() == chunk.at {
                chunk.at = piece as usize;
            }
        }
    }
}
