//! What instrumented code has left in its atomic variables: code that is not instrumented gives itself away by leaving
//! something else there.
//!
//! A table of fixed size, in which a variable may push out another one: an atomic operation costs one look and one
//! comparison, and nothing is lost but knowledge.

use alloc::{boxed::Box, vec};
use core::arch::asm;

const ENTRIES: usize = 1024;

#[derive(Debug)]
pub(crate) struct AtomicValues {
    table: Box<[Entry]>,
    /// Whether a standard library is part of the program that is not instrumented and shares variables with code
    /// that is.
    prebuilt: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    addr: usize,
    value: u64,
}

impl AtomicValues {
    pub(crate) fn new() -> Self {
        Self { table: vec![Entry::default(); ENTRIES].into(), prebuilt: has_prebuilt_library() }
    }

    /// An atomic operation found one value and left another; whether somebody else may have written in between.
    #[inline]
    pub(crate) fn operate(&mut self, addr: usize, found: u64, stored: u64) -> bool {
        // The low bits of most addresses are the same.
        let entry = &mut self.table[(addr >> 2) % ENTRIES];
        let foreign = if entry.addr == addr { entry.value != found } else { self.prebuilt };
        *entry = Entry { addr, value: stored };
        foreign
    }
}

/// `unsnarl cargo` has the linker leave a mark: Rust's standard library comes compiled.
fn has_prebuilt_library() -> bool {
    let mark: usize;
    // SAFETY: reads the entry of a weak symbol in our own table of addresses: zero if the program has no such mark.
    unsafe {
        asm!(
            ".weak __unsnarl_prebuilt_library",
            "mov {}, qword ptr [rip + __unsnarl_prebuilt_library@GOTPCREL]",
            out(reg) mark,
            options(nostack, readonly, preserves_flags)
        );
    }
    mark != 0
}
