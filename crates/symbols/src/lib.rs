//! Symbolization: [`Symbols`] maps code addresses to functions, files and lines, and addresses of globals to
//! variable names; [`Unwinder`] computes the active calls of a dead program from its registers and stack;
//! [`Binary`] inspects a file before it is run.
//!
//! Everything is read from files that may be missing, stripped, damaged or rebuilt since: unknown information
//! is omitted, and nothing here panics or guesses.

#![forbid(unsafe_code)]

mod access_calls;
mod binary;
mod code;
mod debug_file;
mod demangle;
mod frame;
mod function_code;
mod image;
mod locals;
mod names;
mod symbols;
mod system;
mod types;
mod unwind;

pub use access_calls::{AccessCall, ReportedAccess};
pub use binary::{Binary, ElfKind, Libc, ReadError, build_id, elf_kind, has_debug_info, is_instrumented};
pub use code::ModuleCode;
pub use demangle::demangle;
pub use frame::Frame;
pub use function_code::FunctionCode;
pub use locals::{LocalVariable, NoLocation, VariableLocation, local};
pub use symbols::{Symbols, hex};
pub use system::{CodeOwnership, is_system, set_ownership};
pub use types::SizedPart;
pub use unwind::{Registers, StackCopy, Unwinder};

use unsnarl_model::{Module, ModuleIx, Site};

/// Returns the site of an address: the module that contains it, and the offset from the module's load
/// address.
///
/// If images overlap (a program at fixed addresses is loaded at 0), the nearest one counts.
#[must_use]
pub fn site_of(modules: &[Module], addr: u64) -> Option<Site> {
    modules
        .iter()
        .enumerate()
        .filter(|(_, m)| m.base <= addr && addr - m.base < m.size)
        .max_by_key(|(_, m)| m.base)
        .and_then(|(ix, m)| Some(Site { module: ModuleIx(u16::try_from(ix).ok()?), offset: addr - m.base }))
}
