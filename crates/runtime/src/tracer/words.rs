//! The words of the trace in the shared memory.

use crate::{log::Log, sys};
use core::{ops::Range, sync::atomic::Ordering};
use unsnarl_wire::TracerWords;

pub(super) struct Words {
    shared: *mut TracerWords,
    first: u64,
    end: u64,
    /// Who writes here has to wait until the controller has taken what is there.
    guard: Range<u64>,
}

/// Memory where nothing can be written: translated code does not ask for room.
const GUARD: u64 = 64 << 10;

/// How far the program may be ahead of the controller.
const WINDOW: u64 = 64 << 20;

impl Words {
    pub(super) fn new(log: &Log) -> Self {
        let (words, capacity) = log.steps();
        let shared = &raw mut log.header().tracer;
        let (first, end) = (words as u64, words as u64 + 8 * capacity);
        // SAFETY: memory of ours, and nothing is there yet.
        unsafe {
            (*shared).first = first;
            (*shared).next.store(first, Ordering::Release);
        }
        let mut words = Self { shared, first, end, guard: 0..0 };
        words.guard_at(first + WINDOW);
        words
    }

    fn guard_at(&mut self, start: u64) {
        let start = start.min(self.end.saturating_sub(GUARD)).max(self.first) & !4095;
        self.guard = start..(start + GUARD).min(self.end);
        self.protect(libc::PROT_NONE);
    }

    fn protect(&self, protection: i32) {
        let [start, size] = [self.guard.start, self.guard.end - self.guard.start].map(|n| n as usize);
        // SAFETY: memory of ours, in which nothing is written yet.
        unsafe { sys::call(libc::SYS_mprotect, [start, size, protection as usize, 0, 0, 0]) };
    }

    /// Lets the program go on beyond the guard as soon as the controller has caught up; false if there is no more
    /// room at all.
    pub(super) fn make_room(&mut self) -> bool {
        let tick = libc::timespec { tv_sec: 0, tv_nsec: 100_000 };
        // SAFETY: the header is never unmapped.
        let (taken, enough) = unsafe { (&(*self.shared).taken, &(*self.shared).enough) };
        if self.guard.end >= self.end {
            return false;
        }
        while enough.load(Ordering::Acquire) == 0 {
            let taken = self.first + 8 * taken.load(Ordering::Acquire);
            if self.guard.start <= taken + WINDOW / 2 {
                self.protect(libc::PROT_READ | libc::PROT_WRITE);
                self.guard_at(taken + WINDOW);
                return true;
            }
            // In real time: it is the controller that is waited for.
            // SAFETY: a pointer to a time, and no interest in what is left of it.
            unsafe { sys::call(libc::SYS_nanosleep, [&raw const tick as usize, 0, 0, 0, 0, 0]) };
        }
        false
    }

    /// What translated code works with.
    pub(super) fn shared(&self) -> *const TracerWords {
        self.shared
    }

    /// Whether that is where nothing can be written yet.
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
        if at + bytes > self.guard.start && !self.make_room() {
            super::full();
        }
        // SAFETY: below the guard, for which the controller made room.
        unsafe { (at as *mut u64).copy_from_nonoverlapping(record.as_ptr(), record.len()) };
        next.store(at + bytes, Ordering::Release);
    }
}
