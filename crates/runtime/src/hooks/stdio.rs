//! The lock of a `FILE`. The C library takes it by itself in every function on it: only that a program holds it over several of
//! them, so that others have to wait inside of the library, is of interest.

use core::{
    ffi::c_void,
    sync::atomic::{AtomicUsize, Ordering},
};

type File = c_void;

/// How many such locks the program has taken and not given back.
static HELD: AtomicUsize = AtomicUsize::new(0);

/// Whether there is one.
pub(crate) fn is_held() -> bool {
    HELD.load(Ordering::Relaxed) > 0
}

hooks! {
    fn flockfile(file: *mut File) -> (), |runtime, pc| {
        HELD.fetch_add(1, Ordering::Relaxed);
        if runtime.state.live > 1 { runtime.state.expect_waits_in_libraries(pc) }
        real::flockfile(file)
    }

    fn ftrylockfile(file: *mut File) -> i32, |runtime, pc| {
        let error = real::ftrylockfile(file);
        if error == 0 {
            HELD.fetch_add(1, Ordering::Relaxed);
            if runtime.state.live > 1 { runtime.state.expect_waits_in_libraries(pc) }
        }
        error
    }

    fn funlockfile(file: *mut File) -> (), |runtime, pc| {
        let _ = HELD.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |held| held.checked_sub(1));
        real::funlockfile(file)
    }
}
