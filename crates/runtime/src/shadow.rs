//! Shadow memory of the race detector: a word for each eight bytes of the program's memory, found by
//! arithmetic. It is only reserved: the kernel provides pages as they are touched.

use crate::{heap, sys};
use alloc::{boxed::Box, vec::Vec};
use core::ops::Range;
use unsnarl_race::{ShadowMemory, Word};
use unsnarl_wire::RUNTIME_MEMORY;

/// The start of the shadow memory.
const BASE: usize = 0x1000_0000_0000;
/// The address bits that distinguish the watched parts of the address space.
const ADDRESS_BITS: u64 = (1 << 42) - 1;
/// The size: eight bytes of shadow for each byte.
const SIZE: usize = (ADDRESS_BITS as usize + 1) * (size_of::<Word>() / 8);
/// Up to this many bytes are cleared one by one; beyond that, whole pages are discarded.
const MAX_CLEARED_BYTEWISE: u64 = 4096;

/// The range of the shadow memory.
pub(crate) const RANGE: Range<usize> = BASE..BASE + SIZE;
const _: () =
    assert!(BASE as u64 == RUNTIME_MEMORY[0].start && (BASE + SIZE) as u64 <= RUNTIME_MEMORY[0].end);

/// The shadow of a run's memory.
#[derive(Debug)]
pub(crate) struct Shadow {
    /// Pages that are no longer empty, for [`crate::rewind`]; some occur twice.
    used: Vec<usize>,
    /// A cache of the pages that were noted last, indexed by the low bits of their numbers.
    recent_pages: Box<[usize; RECENT_PAGES]>,
}

/// The size of that cache.
const RECENT_PAGES: usize = 64;
/// The maximum number of noted pages.
const MAX_USED: usize = 8192;

impl Shadow {
    /// Reserves it; returns `None` if the system does not allow that.
    pub(crate) fn reserve() -> Option<Self> {
        let room = || Self { used: Vec::with_capacity(MAX_USED), recent_pages: Box::new([0; RECENT_PAGES]) };
        sys::reserve(BASE, SIZE).then(|| heap::with_plan_heap(room))
    }

    /// Returns the pages that are not empty; `None` if there are too many.
    pub(crate) fn used(&self) -> Option<&[usize]> {
        (self.used.len() < MAX_USED).then_some(&self.used)
    }

    fn shadow_of(addr: u64) -> *mut Word {
        (BASE + ((addr & ADDRESS_BITS) as usize & !7) * (size_of::<Word>() / 8)) as *mut Word
    }
}

/// Returns whether an address is watched: programs and heaps at fixed addresses, position-independent
/// programs with their heaps, and libraries with mappings and stacks. Without address randomisation nothing
/// else is mapped, unless a program asks for it. Accesses to the first page fault.
///
/// Libraries, mappings and stacks are at 0x7f… or, where `crates/layout` has loaded the program, at 0x6f…,
/// never at both; so two bits distinguish all parts.
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
        // SAFETY: reserved for the process's lifetime; all zeros is an empty word; `&mut self` excludes other
        // references to it.
        Some(unsafe { &mut *Self::shadow_of(addr) })
    }

    fn forget(&mut self, start: u64, end: u64) {
        if !is_watched(start) || !is_watched(end) || start >= end {
            return;
        }
        if end - start <= MAX_CLEARED_BYTEWISE {
            let mut at = start;
            while at < end {
                // SAFETY: as above.
                unsafe { *Self::shadow_of(at) = Word::default() };
                at += 8;
            }
        } else {
            let (from, to) =
                (Self::shadow_of(start) as usize, Self::shadow_of(end.next_multiple_of(8)) as usize);
            // SAFETY: within the shadow, of which nothing is borrowed.
            unsafe { sys::clear_reserved(from, to) };
        }
    }

    #[inline]
    fn first_use(&mut self, addr: u64) {
        let page = Self::shadow_of(addr) as usize & !4095;
        let recent = &mut self.recent_pages[page >> 12 & (RECENT_PAGES - 1)];
        if *recent != page {
            *recent = page;
            if self.used.len() < MAX_USED {
                self.used.push(page);
            }
        }
    }
}
