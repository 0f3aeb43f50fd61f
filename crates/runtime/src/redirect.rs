//! Redirects functions of the C library into the runtime. Hooks replace what the program calls by name; calls
//! inside the C library reach only code that is written over the function itself.

use crate::{files::OpenFile, real::Real};

/// Access to the program's code.
pub(crate) struct CodeWriter(OpenFile);

/// `mov rax, …; jmp rax`.
const JUMP: [u8; 12] = *b"\x48\xb8\0\0\0\0\0\0\0\0\xff\xe0";

impl CodeWriter {
    /// Returns `None` if the system does not let a program write its own code.
    pub(crate) fn open() -> Option<Self> {
        OpenFile::for_writing(b"/proc/self/mem\0").map(Self)
    }

    /// Makes a function of the C library continue at `to`; returns whether it does now.
    pub(crate) fn redirect(&self, from: &Real, to: usize) -> bool {
        let Some(from) = from.find() else { return false };
        let mut code = JUMP;
        code[2..10].copy_from_slice(&to.to_le_bytes());
        self.0.write_at(from as usize, &code);
        // SAFETY: a function of the C library that is longer than the jump.
        unsafe { from.cast::<[u8; JUMP.len()]>().read_volatile() == code }
    }
}
