//! The words of the trace in shared memory.
//!
//! Their addresses always increase, but the memory is reused: a piece that the controller has consumed is
//! remapped to the front of the written range, so that nothing is cleared or faulted in again. The memory
//! beyond the latest piece is not writable; translated code does not check for room, it faults there.

use crate::{end, log::Log, sys};
use core::sync::atomic::Ordering;
use unsnarl_wire::{CHUNK_WORDS, RING_WORDS, TracerWords};

pub(super) struct Words {
    shared: *mut TracerWords,
    first: u64,
    end: u64,
    /// Writes from this address on must wait for room.
    limit: u64,
}

/// The number of bytes that are remapped at once.
const PIECE: u64 = 8 * CHUNK_WORDS as u64;
const RING: u64 = 8 * RING_WORDS as u64;

impl Words {
    pub(super) fn new(log: &Log) -> Self {
        let (words, capacity) = log.steps();
        let shared = &raw mut log.header().tracer;
        let (first, end) = (words as u64, words as u64 + 8 * capacity / PIECE * PIECE);
        // SAFETY: the runtime's memory, with nothing in it yet.
        unsafe {
            (*shared).first = first;
            (*shared).next.store(first, Ordering::Release);
            let all = (end - first) as usize;
            sys::call(libc::SYS_mprotect, [first as usize, all, libc::PROT_NONE as usize, 0, 0, 0]);
        }
        Self { shared, first, end, limit: first }
    }

    /// Makes another piece writable, as soon as the controller has caught up; returns false if the trace is
    /// full or stopped.
    pub(super) fn make_room(&mut self) -> bool {
        let tick = libc::timespec { tv_sec: 0, tv_nsec: 50_000 };
        // SAFETY: the header is never unmapped.
        let (consumed, stopped) = unsafe { (&(*self.shared).consumed, &(*self.shared).stopped) };
        if self.limit >= self.end {
            return false;
        }
        while stopped.load(Ordering::Acquire) == 0 {
            if self.limit + PIECE <= self.first + 8 * consumed.load(Ordering::Acquire) + RING {
                self.add_piece();
                return true;
            }
            // In real time, because this waits for the controller.
            // SAFETY: a pointer to a time; the remaining time is not requested.
            unsafe { sys::call(libc::SYS_nanosleep, [&raw const tick as usize, 0, 0, 0, 0, 0]) };
        }
        false
    }

    fn add_piece(&mut self) {
        const POPULATE_WRITE: usize = 23;
        let [limit, piece] = [self.limit, PIECE].map(|n| n as usize);
        // SAFETY: the runtime's memory: nothing is written there yet, or it was consumed.
        let failed = unsafe {
            if self.limit < self.first + RING {
                let protection = (libc::PROT_READ | libc::PROT_WRITE) as usize;
                let failed = sys::call(libc::SYS_mprotect, [limit, piece, protection, 0, 0, 0]) < 0;
                if self.limit > self.first {
                    // A long run: one call instead of a fault for each page. Older kernels ignore it.
                    sys::call(libc::SYS_madvise, [limit, piece, POPULATE_WRITE, 0, 0, 0]);
                }
                failed
            } else {
                let how = (libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED) as usize;
                sys::call(libc::SYS_mremap, [limit - RING as usize, piece, piece, how, limit, 0]) < 0
            }
        };
        if failed {
            end::refuse("there is no memory for the instruction trace");
        }
        self.limit += PIECE;
    }

    /// Returns the words that translated code uses.
    pub(super) fn shared(&self) -> *const TracerWords {
        self.shared
    }

    /// Returns whether this address is in the part that is not writable yet.
    pub(super) fn is_guard(&self, addr: u64) -> bool {
        (self.limit..self.end).contains(&addr)
    }

    /// Returns whether control is in the traced code.
    pub(super) fn inside(&self) -> bool {
        // SAFETY: the header is never unmapped.
        unsafe { (&raw const (*self.shared).inside).read_volatile() == 1 }
    }

    pub(super) fn set_inside(&mut self, inside: bool) {
        // SAFETY: as above.
        unsafe { (&raw mut (*self.shared).inside).write_volatile(inside.into()) };
    }

    /// Returns the values of rax and rcx from before translated code used them.
    pub(super) fn saved(&self) -> [u64; 2] {
        // SAFETY: as above.
        unsafe { (&raw const (*self.shared).saved).read_volatile() }
    }

    /// Sets the running thread.
    pub(super) fn set_running(&mut self, running: [u64; 2]) {
        // SAFETY: as above.
        unsafe { (&raw mut (*self.shared).running).write_volatile(running) };
    }

    /// Takes the address of the stack word that holds a return address in translated code; it counts as
    /// restored.
    pub(super) fn take_slot(&mut self) -> Option<*mut u64> {
        // SAFETY: as above.
        let slot = unsafe {
            let place = &raw mut (*self.shared).slot;
            let slot = place.read_volatile();
            place.write_volatile(0);
            slot
        };
        (slot != 0).then_some(slot as *mut u64)
    }

    /// Returns the original address that a return address in translated code may stand for.
    pub(super) fn tail(&self) -> u64 {
        // SAFETY: as above.
        unsafe { (&raw const (*self.shared).tail).read_volatile() }
    }

    pub(super) fn append(&mut self, record: &[u64]) {
        // SAFETY: as above.
        let next = unsafe { &(*self.shared).next };
        let at = next.load(Ordering::Relaxed);
        let bytes = 8 * record.len() as u64;
        if at + bytes > self.limit && !self.make_room() {
            super::trace_full();
        }
        // SAFETY: below the limit.
        unsafe { (at as *mut u64).copy_from_nonoverlapping(record.as_ptr(), record.len()) };
        next.store(at + bytes, Ordering::Release);
    }
}
