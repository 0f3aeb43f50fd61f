//! The traced code: its location and whether it may be executed.

use crate::{
    log::{Log, c_bytes},
    sys,
};
use alloc::vec::Vec;
use core::{ffi::c_void, ops::Range};

/// The executable segments of the traced modules.
pub(super) struct TracedText {
    segments: Vec<Range<u64>>,
    /// Functions at which a thread's trace pauses.
    pauses: &'static [u64],
}

impl TracedText {
    /// Finds the segments of the loaded modules that the plan names.
    pub(super) fn of(log: &Log) -> Self {
        let mut walk = Walk { log, segments: Vec::new() };
        // SAFETY: the callback receives the walk passed here.
        unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut walk).cast()) };
        Self { segments: walk.segments, pauses: log.trace_pauses() }
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

struct Walk<'a> {
    log: &'a Log,
    segments: Vec<Range<u64>>,
}

unsafe extern "C" fn visit(info: *mut libc::dl_phdr_info, _size: usize, walk: *mut c_void) -> i32 {
    // SAFETY: the loader's description of a module, and the walk passed to `dl_iterate_phdr`.
    let (info, walk) = unsafe { (&*info, &mut *walk.cast::<Walk<'_>>()) };
    let path = c_bytes(info.dlpi_name);
    if info.dlpi_phnum == 0 || !walk.log.traced_modules().any(|traced| traced == path) {
        return 0;
    }
    // SAFETY: the loader states the number of program headers.
    let headers = unsafe { core::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum as usize) };
    for header in headers.iter().filter(|h| h.p_type == libc::PT_LOAD && h.p_flags & libc::PF_X != 0) {
        let start = info.dlpi_addr + header.p_vaddr;
        let end = start + header.p_memsz;
        walk.segments.push(start & !4095..end.next_multiple_of(4096));
    }
    0
}
