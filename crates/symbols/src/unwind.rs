//! Computes the calls that were active when a program died, from its registers and a copy of its stack.
//!
//! The call frame information in the modules' files (`.eh_frame`, `.debug_frame`) describes for each
//! instruction where the caller's registers are. It is evaluated here with gimli for all registers that calls
//! preserve and with access to the stack's memory, because both are needed to unwind through a signal frame.
//! Without such information, frame pointers are used.

mod cfi;
mod step;

use crate::site_of;
pub(crate) use cfi::Cfi;
use std::{collections::HashMap, fmt, path::Path};
use step::{FrameRegisters, UnwindStep};
use unsnarl_model::{Module, Site};

/// The registers needed to find callers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Registers {
    /// The instruction pointer.
    pub rip: u64,
    /// The stack pointer.
    pub rsp: u64,
    /// The frame pointer, in code that has one.
    pub rbp: u64,
    /// Preserved by calls, like those that follow.
    pub rbx: u64,
    #[allow(missing_docs)]
    pub r12: u64,
    #[allow(missing_docs)]
    pub r13: u64,
    #[allow(missing_docs)]
    pub r14: u64,
    #[allow(missing_docs)]
    pub r15: u64,
}

/// A part of a thread's stack, copied from the stack pointer upwards.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct StackCopy {
    /// The address of the first byte.
    pub base: u64,
    /// The contents.
    pub bytes: Vec<u8>,
}

impl StackCopy {
    fn word(&self, addr: u64) -> Option<u64> {
        let start = usize::try_from(addr.checked_sub(self.base)?).ok()?;
        let word = self.bytes.get(start..start.checked_add(8)?)?;
        Some(u64::from_le_bytes(word.try_into().ok()?))
    }
}

/// Finds callers. Caches the data of modules' files.
#[derive(Default)]
pub struct Unwinder {
    /// By path; `None` if there is no call frame information.
    cfi: HashMap<String, Option<Cfi>>,
}

impl Unwinder {
    /// Creates an unwinder with an empty cache.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the sites of at most `max` active calls, innermost first. The first is the thread's position;
    /// for the others the offset is inside the call instruction, where the debug information has the right
    /// line. Code outside all modules is left out.
    pub fn backtrace(
        &mut self,
        modules: &[Module],
        regs: &Registers,
        stack: &StackCopy,
        max: usize,
    ) -> Vec<Site> {
        let mut sites = Vec::new();
        let mut registers = FrameRegisters::new(regs);
        // For an interrupted thread, the instruction itself; after a call, the one before.
        let mut interrupted = true;
        // Code outside modules adds no site, but the limit on steps still ends a cycle.
        for step in 0..max.saturating_mul(2) {
            let at = if interrupted { registers.rip() } else { registers.rip().wrapping_sub(1) };
            let site = site_of(modules, at);
            sites.extend(site);
            if sites.len() >= max {
                break;
            }
            let known = site.and_then(|site| {
                let module = modules.get(usize::from(site.module.0))?;
                self.cfi(module)?.step(&registers, site.offset, stack)
            });
            let next = known.unwrap_or_else(|| {
                // A call of a wild pointer left only the return address.
                let pushed = (step == 0 && site.is_none()).then(|| registers.pop(stack)).flatten();
                let caller = pushed.filter(|caller| site_of(modules, caller.rip().wrapping_sub(1)).is_some());
                match caller.or_else(|| registers.by_frame_pointer(stack)) {
                    Some(caller) => UnwindStep::Caller(caller),
                    None => UnwindStep::End,
                }
            });
            match next {
                UnwindStep::Caller(caller) => (registers, interrupted) = (caller, false),
                UnwindStep::Interrupted(before) => (registers, interrupted) = (before, true),
                UnwindStep::End => break,
            }
            if registers.rip() == 0 {
                break;
            }
        }
        sites
    }

    fn cfi(&mut self, module: &Module) -> Option<&Cfi> {
        if !self.cfi.contains_key(&module.path) {
            self.cfi.insert(module.path.clone(), Cfi::open(Path::new(&module.path)));
        }
        self.cfi.get(&module.path)?.as_ref()
    }
}

impl fmt::Debug for Unwinder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unwinder").field("read", &self.cfi.keys()).finish()
    }
}
