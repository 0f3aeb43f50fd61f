//! The words of the trace in the shared memory.

use crate::{log::Log, sys};
use core::{ops::Range, sync::atomic::Ordering};
use unsnarl_wire::TracerWords;

pub(super) struct Words {
    shared: *mut TracerWords,
    /// Who writes here has no more room.
    guard: Range<u64>,
}

/// The end of the memory for the trace, where nothing can be written: translated code does not ask for room.
const GUARD: u64 = 64 << 10;

impl Words {
    pub(super) fn new(log: &Log) -> Self {
        let (words, capacity) = log.steps();
        let shared = &raw mut log.header().tracer;
        let (first, end) = (words as u64, words as u64 + 8 * capacity);
        let guard = end.saturating_sub(GUARD).max(first) & !4095..end;
        let [start, size] = [guard.start, guard.end - guard.start].map(|n| n as usize);
        // SAFETY: memory of ours, and nothing is there yet.
        unsafe {
            sys::call(libc::SYS_mprotect, [start, size, libc::PROT_NONE as usize, 0, 0, 0]);
            (*shared).first = first;
            (*shared).next.store(first, Ordering::Release);
        }
        Self { shared, guard }
    }

    /// What translated code works with.
    pub(super) fn shared(&self) -> *const TracerWords {
        self.shared
    }

    /// Whether that is beyond the room for the trace.
    pub(super) fn is_guard(&self, addr: u64) -> bool {
        self.guard.contains(&addr)
    }

    /// Whether control is in the traced code.
    pub(super) fn inside(&self) -> bool {
        // SAFETY: the header is never unmapped.
        unsafe { (&raw const (*self.shared).inside).read_volatile() == 1 }
    }

    pub(super) fn set_inside(&mut self, inside: bool) {
        // SAFETY: as above.
        unsafe { (&raw mut (*self.shared).inside).write_volatile(inside.into()) };
    }

    /// What rax and rcx were when translated code began to use them.
    pub(super) fn saved(&self) -> [u64; 2] {
        // SAFETY: as above.
        unsafe { (&raw const (*self.shared).saved).read_volatile() }
    }

    /// Who runs from now on.
    pub(super) fn set_who(&mut self, who: [u64; 2]) {
        // SAFETY: as above.
        unsafe { (&raw mut (*self.shared).who).write_volatile(who) };
    }

    /// Where an address of translated code stands on the stack, which from now on is as it was.
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

    pub(super) fn append(&mut self, record: &[u64]) {
        // SAFETY: as above.
        let next = unsafe { &(*self.shared).next };
        let at = next.load(Ordering::Relaxed);
        let bytes = 8 * record.len() as u64;
        if at + bytes > self.guard.start {
            super::full();
        }
        // SAFETY: below the guard, for which the controller made room.
        unsafe { (at as *mut u64).copy_from_nonoverlapping(record.as_ptr(), record.len()) };
        next.store(at + bytes, Ordering::Release);
    }
}
