//! Libraries that the program opens while it runs.
//!
//! All functions are bound when a library is loaded (`LD_BIND_NOW`). A library with a function that nothing defines cannot be
//! opened then, although it can natively, with `RTLD_LAZY`. `dlopen` itself is not hooked, because the loader looks at its caller
//! to find libraries. The program learns of the failure through `dlerror`, and so does the runtime.

use crate::{end, log::c_bytes, real::Real, state::Runtime};
use core::{
    ffi::c_char,
    mem,
    sync::atomic::{AtomicBool, Ordering},
};

/// How the loader reports a symbol that nothing defines.
const UNRESOLVED: &[u8] = b"undefined symbol: ";

static IS_EAGER: AtomicBool = AtomicBool::new(false);
static REAL: Real = Real::new(c"dlerror");

/// Finds the function behind the hook, before the program runs: a lookup later on would clear the error to be reported.
pub(crate) fn find_real() {
    REAL.find();
}

/// Notes that the loader binds eagerly because the controller asked for it.
pub(crate) fn expect_eager_binding() {
    IS_EAGER.store(true, Ordering::Relaxed);
}

#[unsafe(no_mangle)]
unsafe extern "C" fn dlerror() -> *mut c_char {
    let Some(real) = REAL.find() else { return core::ptr::null_mut() };
    // SAFETY: the C library's function of this name.
    let message = unsafe { mem::transmute::<*mut _, unsafe extern "C" fn() -> *mut c_char>(real)() };
    if IS_EAGER.load(Ordering::Relaxed) {
        let text = c_bytes(message);
        let is_unresolved = text.windows(UNRESOLVED.len()).any(|part| part == UNRESOLVED);
        if let (true, Some(runtime)) = (is_unresolved, Runtime::enter()) {
            end::needs_lazy_binding(&runtime.state, text);
        }
    }
    message
}
