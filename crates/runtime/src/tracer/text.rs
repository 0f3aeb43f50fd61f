//! The traced code: its location and whether it may be executed.

use crate::{loaded, log::Log, sys};
use alloc::vec::Vec;
use core::ops::Range;

/// The executable segments of the traced modules.
pub(super) struct TracedText {
    segments: Vec<Range<u64>>,
    /// Functions at which a thread's trace pauses.
    pauses: &'static [u64],
}

impl TracedText {
    /// Finds the segments of the loaded modules that the plan names.
    pub(super) fn of(log: &Log) -> Self {
        let mut segments = Vec::new();
        loaded::for_each(|module| {
            if log.is_traced(module.path()) {
                segments
                    .extend(module.code().map(|code| code.start & !4095..code.end.next_multiple_of(4096)));
            }
        });
        Self { segments, pauses: log.trace_pauses() }
    }

    #[inline]
    pub(super) fn contains(&self, pc: u64) -> bool {
        self.segments.iter().any(|segment| segment.contains(&pc))
    }

    #[inline]
    pub(super) fn pauses_at(&self, pc: u64) -> bool {
        self.pauses.contains(&pc)
    }

    pub(super) fn pauses(&self) -> &'static [u64] {
        self.pauses
    }

    pub(super) fn segments(&self) -> &[Range<u64>] {
        &self.segments
    }

    /// Makes the code executable.
    pub(super) fn allow(&self) {
        self.protect(libc::PROT_READ | libc::PROT_EXEC);
    }

    /// Makes execution of the code fault.
    pub(super) fn forbid(&self) {
        self.protect(libc::PROT_READ);
    }

    fn protect(&self, protection: i32) {
        for segment in &self.segments {
            let size = (segment.end - segment.start) as usize;
            // SAFETY: the program's code stays readable; executing it is either allowed or reaches the
            // tracer's handler.
            unsafe {
                sys::call(libc::SYS_mprotect, [segment.start as usize, size, protection as usize, 0, 0, 0])
            };
        }
    }
}
