//! Access to the runtime's functions, if the runtime is loaded.
//!
//! Stable Rust cannot declare a weak symbol, but the assembler can: the address is read from the table that the loader
//! fills, and is null if nothing defines the name. All unsafe code of this crate is here.

/// The type of hints with a name, which is a C string.
pub type NamedPoint = extern "C" fn(*const u8);

/// Returns the address of a function of the runtime; 0 if there is no runtime.
#[cfg(all(target_arch = "x86_64", target_os = "linux", not(miri)))]
macro_rules! address {
    ($name:literal) => {{
        let address: usize;
        // SAFETY: reads one word of the table.
        unsafe {
            core::arch::asm!(
                concat!(".weak ", $name),
                concat!("mov {}, qword ptr [rip + ", $name, "@GOTPCREL]"),
                out(reg) address,
                options(pure, nomem, nostack, preserves_flags)
            );
        }
        address
    }};
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux", not(miri))))]
macro_rules! address {
    ($name:literal) => {
        0usize
    };
}

macro_rules! function {
    ($name:literal as $type:ty) => {{
        let address = address!($name);
        // SAFETY: null is `None`; otherwise it is the runtime's function of this name, which has this type.
        unsafe { core::mem::transmute::<usize, Option<$type>>(address) }
    }};
}

/// Returns the function that makes a schedule point.
#[inline(always)]
#[must_use]
pub fn point() -> Option<NamedPoint> {
    function!("__unsnarl_point" as NamedPoint)
}

/// Returns the function that makes a checkpoint.
#[inline(always)]
#[must_use]
pub fn checkpoint() -> Option<extern "C" fn()> {
    function!("__unsnarl_checkpoint" as extern "C" fn())
}

/// Returns the function that fails the run, if the program runs under control.
#[inline(always)]
#[must_use]
pub fn fail() -> Option<NamedPoint> {
    let controls = function!("__unsnarl_controls" as extern "C" fn() -> i32)?;
    if controls() == 0 {
        None
    } else {
        function!("__unsnarl_fail" as NamedPoint)
    }
}

/// Enters or leaves a region without preemption.
#[inline(always)]
pub fn undivided(change: i32) {
    if let Some(undivided) = function!("__unsnarl_undivided" as extern "C" fn(i32)) {
        undivided(change);
    }
}
