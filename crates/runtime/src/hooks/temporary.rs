//! Temporary files with names from the plan: the C library would choose them at random.
//!
//! All names of one call derive from one random number, so that the next number does not depend on which
//! files exist.

use super::io::finish;
use crate::{log::c_bytes, state::Runtime, sys};
use core::{ffi::c_char, slice};
use unsnarl_sched::Rng;

const LETTERS: &[u8; 62] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
/// The part of a template that is replaced by letters.
const PLACEHOLDER: &[u8] = b"XXXXXX";
/// The number of names that the C library tries.
const ATTEMPTS: usize = 62 * 62 * 62;

/// Fills in the template until `make` returns anything but `EEXIST`; returns that kernel result.
unsafe fn try_names(
    runtime: &mut Runtime,
    template: *mut c_char,
    suffix: i32,
    make: impl Fn() -> isize,
) -> isize {
    let len = c_bytes(template).len();
    let end = usize::try_from(suffix).ok().and_then(|suffix| len.checked_sub(suffix));
    let Some(start) = end.and_then(|end| end.checked_sub(PLACEHOLDER.len())) else {
        return -libc::EINVAL as isize;
    };
    // SAFETY: the program's string, which the function may change.
    let letters = unsafe { slice::from_raw_parts_mut(template.add(start).cast::<u8>(), PLACEHOLDER.len()) };
    if letters != PLACEHOLDER {
        return -libc::EINVAL as isize;
    }
    runtime.prepare_creation(template);
    let mut rng = Rng::new(runtime.state.random().next());
    for _ in 0..ATTEMPTS {
        for letter in letters.iter_mut() {
            *letter = LETTERS[rng.below(LETTERS.len() as u32) as usize];
        }
        let result = make();
        if result != -libc::EEXIST as isize {
            return result;
        }
    }
    -libc::EEXIST as isize
}

unsafe fn open(runtime: &mut Runtime, template: *mut c_char, suffix: i32, flags: i32) -> i32 {
    let flags = (flags & !libc::O_ACCMODE) | libc::O_RDWR | libc::O_CREAT | libc::O_EXCL;
    let args = [libc::AT_FDCWD as usize, template as usize, flags as usize, 0o600, 0, 0];
    // SAFETY: the program's template.
    let result = unsafe { try_names(runtime, template, suffix, || sys::call(libc::SYS_openat, args)) };
    if result >= 0 {
        runtime.state.descriptors.forget(result as i32);
        let name = runtime.note_creation(template);
        runtime.state.open_files.set(result as i32, name);
    }
    finish(Ok(result)) as i32
}

hooks! {
    fn mkstemp(template: *mut c_char) -> i32, |runtime, pc| {
        open(runtime, template, 0, 0)
    }

    fn mkstemp64(template: *mut c_char) -> i32, |runtime, pc| {
        open(runtime, template, 0, 0)
    }

    fn mkstemps(template: *mut c_char, suffix: i32) -> i32, |runtime, pc| {
        open(runtime, template, suffix, 0)
    }

    fn mkstemps64(template: *mut c_char, suffix: i32) -> i32, |runtime, pc| {
        open(runtime, template, suffix, 0)
    }

    fn mkostemp(template: *mut c_char, flags: i32) -> i32, |runtime, pc| {
        open(runtime, template, 0, flags)
    }

    fn mkostemp64(template: *mut c_char, flags: i32) -> i32, |runtime, pc| {
        open(runtime, template, 0, flags)
    }

    fn mkostemps(template: *mut c_char, suffix: i32, flags: i32) -> i32, |runtime, pc| {
        open(runtime, template, suffix, flags)
    }

    fn mkostemps64(template: *mut c_char, suffix: i32, flags: i32) -> i32, |runtime, pc| {
        open(runtime, template, suffix, flags)
    }

    fn mkdtemp(template: *mut c_char) -> *mut c_char, |runtime, pc| {
        let make = || sys::call(libc::SYS_mkdir, [template as usize, 0o700, 0, 0, 0, 0]);
        let result = try_names(runtime, template, 0, make);
        if result >= 0 {
            runtime.note_creation(template);
        }
        if finish(Ok(result)) < 0 { core::ptr::null_mut() } else { template }
    }
}
