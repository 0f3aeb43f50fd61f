//! The value by which the C library mangles code addresses in writable memory (`PTR_MANGLE`): the same in
//! every run.
//!
//! The loader draws it from the kernel's random bytes. It reaches the program's memory wherever `setjmp` was
//! called: the loader, the unwinder and each thread's start leave mangled addresses on stacks, and name
//! lookups and conversions leave them on the heap.
//!
//! Libraries that were initialised earlier may have registered exit handlers. So every mangled word is found
//! and mangled again: a word that the old value demangles to an address of code or of the stack. Another word
//! does so by chance only if some forty bits match.

use crate::{
    loaded,
    maps::{self, Mapping},
    real::Real,
    sys,
};
use alloc::vec::Vec;
use core::{arch::asm, ops::Range};

/// An arbitrary number that is not a valid address.
const GUARD: u64 = 0x6c62_272e_07bb_0142;

/// The number of bits by which a mangled address is rotated.
const ROTATION: u32 = 17;

const PAGE: usize = 4096;

/// Replaces the value while the program has one thread and before it runs; if that is not possible, it stays.
pub(crate) fn replace() {
    static SINGLE: Real = Real::new(c"__libc_single_threaded");
    // SAFETY: a byte of the C library.
    let is_single = SINGLE.find().is_some_and(|place| unsafe { *place.cast::<u8>() } != 0);
    let (true, Some(mappings)) = (is_single, maps::all()) else { return };
    let old: u64;
    // SAFETY: the C library's copy in the thread descriptor.
    unsafe { asm!("mov {}, fs:[0x30]", out(reg) old, options(nostack, readonly, preserves_flags)) };
    // The loader's functions use a copy, which is constant from now on.
    let Some(copy) = copy_of_loader(old) else { return };
    let here = &raw const old as usize;
    let stack = main_stack(&mappings);
    let is_address = |word: u64| {
        let is_in = |mapping: &Mapping| (mapping.start as u64..mapping.end as u64).contains(&word);
        mappings
            .iter()
            .any(|mapping| (mapping.rights[2] == b'x' || Some(mapping.start) == stack) && is_in(mapping))
    };
    let own =
        mappings.iter().filter(|mapping| mapping.is_own() && !(mapping.start..mapping.end).contains(&here));
    for page in own.flat_map(resident_pages) {
        for place in page.step_by(size_of::<u64>()) {
            let place = place as *mut u64;
            // SAFETY: a word of a resident and writable page. No other thread runs.
            unsafe {
                let plain = place.read_volatile().rotate_right(ROTATION) ^ old;
                if is_address(plain) {
                    place.write_volatile((plain ^ GUARD).rotate_left(ROTATION));
                }
            }
        }
    }
    write_constant(copy, GUARD);
    // SAFETY: as above; new threads copy it.
    unsafe { asm!("mov fs:[0x30], {}", in(reg) GUARD, options(nostack, preserves_flags)) };
}

/// Returns the start of the mapping of the main thread's stack.
fn main_stack(mappings: &[Mapping]) -> Option<usize> {
    unsafe extern "C" {
        static __libc_stack_end: usize;
    }
    // SAFETY: the loader stores here where the main thread's stack begins.
    let top = unsafe { __libc_stack_end };
    mappings.iter().find(|mapping| (mapping.start..mapping.end).contains(&top)).map(|mapping| mapping.start)
}

/// Returns the resident pages: untouched pages are empty, and reading them would populate them.
fn resident_pages(mapping: &Mapping) -> impl Iterator<Item = Range<usize>> + use<> {
    const PIECE: usize = 16 << 20;
    let Mapping { start, end, .. } = *mapping;
    (start..end).step_by(PIECE).flat_map(move |start| {
        let end = end.min(start + PIECE);
        let mut resident: Vec<u8> = alloc::vec![0; (end - start) / PAGE];
        // SAFETY: there is room for one byte per page.
        unsafe {
            sys::call(libc::SYS_mincore, [start, end - start, resident.as_mut_ptr() as usize, 0, 0, 0])
        };
        resident.into_iter().enumerate().filter(|&(_, resident)| resident & 1 != 0).map(move |(nth, _)| {
            let page = start + nth * PAGE;
            page..page + PAGE
        })
    })
}

/// Returns the loader's copy, if there is exactly one such word.
fn copy_of_loader(guard: u64) -> Option<*mut u64> {
    let words = loaded::words_of(b"/ld-linux-x86-64.so.2", libc::PT_GNU_RELRO, 0);
    let mut places = words.map(|place| place as *mut u64).filter(|place| {
        // SAFETY: within the loader's constants.
        unsafe { place.read_volatile() == guard }
    });
    match (places.next(), places.next()) {
        (Some(place), None) => Some(place),
        _ => None,
    }
}

/// Writes a word that the loader has made constant.
fn write_constant(place: *mut u64, value: u64) {
    let protect = |rights: i32| {
        // SAFETY: the page of the word.
        unsafe {
            sys::call(libc::SYS_mprotect, [place as usize & !(PAGE - 1), PAGE, rights as usize, 0, 0, 0])
        }
    };
    if protect(libc::PROT_READ | libc::PROT_WRITE) == 0 {
        // SAFETY: it is writable now, and no other thread runs.
        unsafe { place.write_volatile(value) };
        protect(libc::PROT_READ);
    }
}
