//! The values that instrumented code last stored in its atomic variables: a different value reveals a write
//! by code that is not instrumented.
//!
//! The table has a fixed size, and a variable may replace another one: an atomic operation costs one lookup
//! and one comparison, and a replacement only loses information.

use alloc::{boxed::Box, vec};
use core::arch::asm;

const ENTRIES: usize = 1024;

#[derive(Debug)]
pub(crate) struct AtomicValues {
    table: Box<[Entry]>,
    /// True if the program contains a standard library that is not instrumented and shares variables with
    /// instrumented code.
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

    /// Returns whether the program contains a standard library that is not instrumented.
    #[inline]
    pub(crate) fn has_prebuilt_library(&self) -> bool {
        self.prebuilt
    }

    /// Records that an atomic operation found one value and stored another; returns whether other code may
    /// have written in between.
    #[inline]
    pub(crate) fn operate(&mut self, addr: usize, found: u64, stored: u64) -> bool {
        // The low bits of most addresses are equal.
        let entry = &mut self.table[(addr >> 2) % ENTRIES];
        let foreign = if entry.addr == addr { entry.value != found } else { self.prebuilt };
        *entry = Entry { addr, value: stored };
        foreign
    }
}

/// Returns whether the program has the mark that `unsnarl cargo` sets in the linker: Rust's standard library
/// is precompiled.
fn has_prebuilt_library() -> bool {
    let mark: usize;
    // SAFETY: reads the entry of a weak symbol in this library's address table: zero if the program has no
    // such mark.
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
