//! The runtime's own memory: the target's malloc is never used, so the target's heap looks the same
//! whatever the runtime does.

use crate::sys;
use core::{
    alloc::{GlobalAlloc, Layout},
    cell::UnsafeCell,
    ptr,
};

const CHUNK: usize = 1 << 20;

/// Hands out memory in order and takes back only the latest piece: tables here grow and stay.
struct Heap(UnsafeCell<Chunk>);

struct Chunk {
    at: usize,
    end: usize,
}

// SAFETY: only the carrier allocates (see the crate's documentation).
unsafe impl Sync for Heap {}

#[global_allocator]
static HEAP: Heap = Heap(UnsafeCell::new(Chunk { at: 0, end: 0 }));

// SAFETY: pieces never overlap, are aligned as asked, and stay where they are until freed.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: no other reference exists: allocation does not call back.
        let chunk = unsafe { &mut *self.0.get() };
        let mut at = chunk.at.next_multiple_of(layout.align());
        if at + layout.size() > chunk.end || chunk.at == 0 {
            let size = layout.size().next_multiple_of(CHUNK).max(CHUNK);
            let Some(start) = sys::map(size) else { return ptr::null_mut() };
            *chunk = Chunk { at: start, end: start + size };
            at = start;
        }
        chunk.at = at + layout.size();
        at as *mut u8
    }

    unsafe fn dealloc(&self, piece: *mut u8, layout: Layout) {
        // SAFETY: as above.
        let chunk = unsafe { &mut *self.0.get() };
        if piece as usize + layout.size() == chunk.at {
            chunk.at = piece as usize;
        }
    }
}
