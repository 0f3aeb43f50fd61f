//! The random numbers that the loader and the C library drew before the runtime started.
//!
//! The sixteen bytes that the kernel gives every program derive from the plan, like all random numbers of the
//! program. What the C library made of them is the same in every run: programs do not use it, but it leaves
//! traces in memory, which instrumented programs see.

use crate::{
    entropy::Entropy,
    loaded,
    real::{Real, real},
};
use core::{arch::asm, ffi::c_void};

real! {
    fn __libc_malloc(size: usize) -> *mut c_void;
    fn __libc_free(piece: *mut c_void);
}

/// The seed of what is the same in every run.
const FIXED: u64 = 0x5eed;

/// The numbers that are drawn first from a seed.
struct FirstNumbers {
    /// The bytes of the kernel.
    kernel: [u8; 16],
    /// Malloc's key.
    key: u64,
}

impl FirstNumbers {
    fn draw(entropy: &mut Entropy) -> Self {
        let mut kernel = [0; 16];
        entropy.fill(&mut kernel);
        Self { kernel, key: entropy.next() }
    }
}

/// Returns the program's random numbers from this seed, and replaces the kernel's bytes by the first of them.
pub(crate) fn start(seed: u64) -> Entropy {
    let mut entropy = Entropy::new(seed);
    let first = FirstNumbers::draw(&mut entropy);
    if let Some(bytes) = kernel_bytes() {
        bytes.copy_from_slice(&first.kernel);
    }
    entropy
}

/// Replaces malloc's key when the library is loaded.
pub(crate) fn replace_malloc_key() {
    if let Some(key) = malloc_key() {
        *key = FirstNumbers::draw(&mut Entropy::new(FIXED)).key;
    }
}

/// Returns the sixteen random bytes that the kernel gives every program.
fn kernel_bytes() -> Option<&'static mut [u8]> {
    // Not by a call of `getauxval`, which is replaced.
    static FUNCTION: Real = Real::new(c"getauxval");
    let function = FUNCTION.find()?;
    // SAFETY: the C library's function, a query without side effects.
    let bytes = unsafe {
        let function: unsafe extern "C" fn(u64) -> u64 = core::mem::transmute(function);
        function(libc::AT_RANDOM) as *mut u8
    };
    // SAFETY: sixteen bytes on the initial stack, if they exist.
    (!bytes.is_null()).then(|| unsafe { core::slice::from_raw_parts_mut(bytes, 16) })
}

/// Replaces the stack protector's canary, which the loader took from the kernel's bytes. No active frame may
/// contain it. For the pointer guard see [`crate::pointer_guard`].
pub(crate) fn replace_stack_guard() {
    let [_, a, b, c, d, e, f, g, ..] = FirstNumbers::draw(&mut Entropy::new(FIXED)).kernel;
    // As in the loader: the first byte is zero, so that no string runs over it.
    let guard = u64::from_le_bytes([0, a, b, c, d, e, f, g]);
    // SAFETY: the compiler's canary in the thread descriptor; new threads copy it.
    unsafe { asm!("mov fs:[0x28], {}", in(reg) guard, options(nostack, preserves_flags)) };
}

/// Finds malloc's key that marks freed pieces. It has no exported name, so the code looks at a mark and
/// searches for its value.
fn malloc_key() -> Option<&'static mut u64> {
    /// Small enough to be cached after a free, with the mark in its second word.
    const SMALL: usize = 24;
    // SAFETY: a piece just freed by the only thread still has its mark.
    let mark = unsafe {
        let piece = __libc_malloc(SMALL);
        if piece.is_null() {
            return None;
        }
        piece.cast::<u64>().add(1).write_volatile(0);
        __libc_free(piece);
        let mark = piece.cast::<u64>().add(1).read_volatile();
        // The piece stays allocated, which removes its mark; freeing it again would mark it again.
        __libc_malloc(SMALL);
        mark
    };
    let mut places = loaded::words_of(b"/libc.so.6", libc::PT_LOAD, libc::PF_W).filter(|&place| {
        // SAFETY: within the library's writable data.
        mark != 0 && unsafe { (place as *const u64).read_volatile() } == mark
    });
    match (places.next(), places.next()) {
        // SAFETY: as above, and no other code accesses it now.
        (Some(place), None) => Some(unsafe { &mut *(place as *mut u64) }),
        _ => None,
    }
}
