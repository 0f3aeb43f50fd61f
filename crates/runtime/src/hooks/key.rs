//! Thread-specific data. glibc keeps the values; the runtime calls the destructors, where they can be
//! scheduled.

use crate::{real::real, state::Runtime};
use alloc::vec::Vec;
use core::ffi::c_void;

pub(super) type Destructor = unsafe extern "C-unwind" fn(*mut c_void);

/// The destructor of each key that has one, sorted by key: glibc calls them in that order.
#[derive(Default)]
pub(crate) struct Keys(Vec<(u32, Destructor)>);

impl Keys {
    fn position(&self, key: u32) -> Result<usize, usize> {
        self.0.binary_search_by_key(&key, |&(known, _)| known)
    }

    /// Returns the first destructor from `key` on.
    fn first_from(&self, key: u32) -> Option<(u32, Destructor)> {
        let at = self.position(key).unwrap_or_else(|at| at);
        self.0.get(at).copied()
    }

    fn insert(&mut self, key: u32, destructor: Destructor) {
        match self.position(key) {
            Ok(at) => self.0[at].1 = destructor,
            Err(at) => self.0.insert(at, (key, destructor)),
        }
    }

    fn remove(&mut self, key: u32) {
        if let Ok(at) = self.position(key) {
            self.0.remove(at);
        }
    }
}

mod next {
    use super::*;
    real! {
        fn pthread_getspecific(key: u32) -> *mut c_void;
        fn pthread_setspecific(key: u32, value: *const c_void) -> i32;
    }
}

/// The number of rounds that glibc makes while destructors set new values.
const ROUNDS: usize = 4;

/// Calls the destructors of the running thread's values.
pub(crate) unsafe extern "C-unwind" fn run_destructors() {
    for _ in 0..ROUNDS {
        let mut any = false;
        let mut next = 0;
        // Destructors may create and delete keys, so the table is searched each time.
        while let Some((key, destructor)) = Runtime::enter().and_then(|r| r.state.keys.first_from(next)) {
            next = key + 1;
            // SAFETY: an existing key, and the program's destructor for it.
            unsafe {
                let value = next::pthread_getspecific(key);
                if !value.is_null() {
                    next::pthread_setspecific(key, core::ptr::null());
                    any = true;
                    destructor(value);
                }
            }
        }
        if !any {
            return;
        }
    }
}

hooks! {
    fn pthread_key_create(key: *mut u32, destructor: Option<Destructor>) -> i32, |runtime, pc| {
        create(runtime, key, destructor)
    }

    fn __pthread_key_create(key: *mut u32, destructor: Option<Destructor>) -> i32, |runtime, pc| {
        create(runtime, key, destructor)
    }

    fn pthread_key_delete(key: u32) -> i32, |runtime, pc| {
        delete(runtime, key)
    }
}

/// Creates a key; also used for C11.
pub(super) unsafe fn create(runtime: &mut Runtime, key: *mut u32, destructor: Option<Destructor>) -> i32 {
    // SAFETY: the program's key.
    unsafe {
        let error = real::pthread_key_create(key, None);
        if let (0, Some(destructor)) = (error, destructor) {
            runtime.state.keys.insert(*key, destructor);
        }
        error
    }
}

/// Deletes a key; also used for C11.
pub(super) unsafe fn delete(runtime: &mut Runtime, key: u32) -> i32 {
    runtime.state.keys.remove(key);
    // SAFETY: glibc checks the key.
    unsafe { real::pthread_key_delete(key) }
}
