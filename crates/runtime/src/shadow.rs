//! Shadow memory for the race detector: a word for each eight bytes of the program's memory, found by
//! arithmetic alone. Reserved, not used: the kernel gives pages as they are touched.

use crate::{heap, sys};
use alloc::{boxed::Box, vec::Vec};
use core::ops::Range;
use unsnarl_race::{ShadowMemory, Word};

/// Where it lies.
const BASE: usize = 0x1000_0000_0000;
/// The bits of an address that tell the watched parts of the address space apart.
const BITS: u64 = (1 << 42) - 1;
/// Eight bytes of shadow for each byte.
const SIZE: usize = (BITS as usize + 1) * (size_of::<Word>() / 8);
/// Up to so many bytes are emptied one by one; beyond, pages are given back.
const BY_HAND: u64 = 4096;

/// All of it.
pub(crate) const RANGE: Range<usize> = BASE..BASE + SIZE;

/// The shadow of a run's memory.
#[derive(Debug)]
pub(crate) struct Shadow {
    /// Pages that are not empty any more, for [`crate::rewind`]; some twice.
    used: Vec<usize>,
    /// Those that were noted last, by the last bits of their numbers.
    noted: Box<[usize; NOTED]>,
}

/// How many pages are told apart before one is noted again.
const NOTED: usize = 64;
/// So many pages are noted, and no more.
const MAX_USED: usize = 8192;

impl Shadow {
    /// Reserves it; none if the system does not allow that.
    pub(crate) fn reserve() -> Option<Self> {
        let room = || Self { used: Vec::with_capacity(MAX_USED), noted: Box::new([0; NOTED]) };
        sys::reserve(BASE, SIZE).then(|| heap::with_plan_heap(room))
    }

    /// Where the pages are that are not empty; none if there are too many.
    pub(crate) fn used(&self) -> Option<&[usize]> {
        (self.used.len() < MAX_USED).then_some(&self.used)
    }

    fn place(addr: u64) -> *mut Word {
        (BASE + ((addr & BITS) as usize & !7) * (size_of::<Word>() / 8)) as *mut Word
    }
}

/// Programs and heaps at fixed addresses, position-independent programs with their heaps, libraries with
/// mappings and stacks. Nothing else is there without address randomisation, unless a program insists. Who accesses the
/// first page faults.
///
/// Libraries, mappings and stacks are at 0x7f… or, where `crates/layout` has loaded the program, at 0x6f…, never at both; so two
/// bits tell all parts apart.
#[inline]
const fn is_watched(addr: u64) -> bool {
    matches!(addr.wrapping_sub(4096) >> 40, 0 | 0x55 | 0x56 | 0x6f | 0x7f)
}

impl ShadowMemory for Shadow {
    #[inline]
    fn word(&mut self, addr: u64) -> Option<&mut Word> {
        if !is_watched(addr) {
            return None;
        }
        // SAFETY: reserved for as long as the process lives; all zero is an empty word; no other reference to it
        // exists, by `&mut self`.
        Some(unsafe { &mut *Self::place(addr) })
    }

    fn forget(&mut self, start: u64, end: u64) {
        if !is_watched(start) || !is_watched(end) || start >= end {
            return;
        }
        if end - start <= BY_HAND {
            let mut at = start;
            while at < end {
                // SAFETY: as above.
                unsafe { *Self::place(at) = Word::default() };
                at += 8;
            }
        } else {
            let (from, to) = (Self::place(start) as usize, Self::place(end.next_multiple_of(8)) as usize);
            // SAFETY: within the shadow, of which nothing is borrowed.
            unsafe { sys::empty(from, to) };
        }
    }

    #[inline]
    fn first_use(&mut self, addr: u64) {
        let page = Self::place(addr) as usize & !4095;
        let noted = &mut self.noted[page >> 12 & (NOTED - 1)];
        if *noted != page {
            *noted = page;
            if self.used.len() < MAX_USED {
                self.used.push(page);
            }
        }
    }
}
