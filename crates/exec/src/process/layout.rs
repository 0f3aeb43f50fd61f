//! The same addresses for programs in every run.

use std::sync::OnceLock;

/// The component that decides where the program and its libraries are loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// The kernel, without randomisation.
    Kernel,
    /// Our own library, because the kernel's randomisation cannot be disabled.
    Own,
}

/// Returns how programs get the same addresses in every run on this system.
#[must_use]
pub fn layout() -> Layout {
    static LAYOUT: OnceLock<Layout> = OnceLock::new();
    const QUERY: libc::c_ulong = 0xffff_ffff;
    *LAYOUT.get_or_init(|| {
        // For tests and benchmarks, and to reproduce the layout of a container on an ordinary machine.
        if std::env::var_os("UNSNARL_LAYOUT").is_some_and(|value| value == "own") {
            return Layout::Own;
        }
        // SAFETY: sets a flag of the calling thread that affects only programs that it starts, and restores it.
        let is_allowed = unsafe {
            let now = libc::personality(QUERY).max(0);
            let is_allowed = libc::personality(libc::ADDR_NO_RANDOMIZE as libc::c_ulong) >= 0;
            libc::personality(now as libc::c_ulong);
            is_allowed
        };
        if is_allowed { Layout::Kernel } else { Layout::Own }
    })
}
