//! Looking up functions by name. A library that asks for what is behind itself gets past us: jemalloc finds the function that starts
//! its background threads this way, so as not to meet wrappers of the program's. A thread started there would be under nobody's
//! control.
//!
//! Only this one question is answered otherwise. A library that stands in for the function as well is called by us, as the next one
//! behind us, and what is behind it is the C library: as long as there is such a library, whoever asks gets the loader's own answer, so
//! that nobody is met twice. The program itself is in front of us and finds us anyway. Sanitizers in it ask before anything was initialised:
//! nothing here needs that, and nothing calls the functions of the C library that they stand in for.

use crate::log::c_bytes;
use core::{
    ffi::{CStr, c_char, c_void},
    mem,
    sync::atomic::{AtomicUsize, Ordering},
};

unsafe extern "C" {
    fn dlvsym(handle: *mut c_void, name: *const c_char, version: *const c_char) -> *mut c_void;
    static __ehdr_start: u8;
}

const STARTS_THREADS: &CStr = c"pthread_create";

/// The C library looks at who called it, so it is jumped to.
#[unsafe(naked)]
#[unsafe(no_mangle)]
unsafe extern "C" fn dlsym(_: *mut c_void, _: *const c_char) -> *mut c_void {
    core::arch::naked_asm!(
        ".cfi_startproc",
        "push rdi",
        "push rsi",
        "sub rsp, 8",
        ".cfi_adjust_cfa_offset 24",
        "mov rdx, [rsp + 24]",
        "call {}",
        "add rsp, 8",
        "pop rsi",
        "pop rdi",
        ".cfi_adjust_cfa_offset -24",
        "jmp rax",
        ".cfi_endproc",
        sym resolver
    )
}

/// Where the question is answered.
unsafe extern "C" fn resolver(handle: *mut c_void, name: *const c_char, caller: *mut c_void) -> usize {
    // SAFETY: the name is a C string, as the caller says.
    if handle == libc::RTLD_NEXT && unsafe { starts_threads(name) } && is_lookup_beyond_runtime(caller) {
        return ours as *const () as usize;
    }
    real()
}

/// Whether this is the name in question. `strcmp` may be somebody's who is not ready yet.
///
/// # Safety
///
/// It is a C string.
unsafe fn starts_threads(name: *const c_char) -> bool {
    // SAFETY: not beyond the first byte that differs, and so not beyond the zero.
    STARTS_THREADS
        .to_bytes_with_nul()
        .iter()
        .enumerate()
        .all(|(at, &byte)| unsafe { *name.add(at) } as u8 == byte)
}

unsafe extern "C" fn ours() -> usize {
    super::thread::start_thread as *const () as usize
}

/// Whether somebody else asks, and what is behind us is the C library's: others that stand in for it would find us behind
/// themselves, and we call them.
fn is_lookup_beyond_runtime(caller: *mut c_void) -> bool {
    // SAFETY: the function at this address, which is called with what it takes.
    let behind_us = unsafe {
        let look: unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void = mem::transmute(real());
        look(libc::RTLD_NEXT, STARTS_THREADS.as_ptr())
    };
    let (Some(caller), Some(behind_us)) = (module_of(caller), module_of(behind_us)) else { return false };
    let file = c_bytes(behind_us.dli_fname).rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    caller.dli_fbase.cast_const() != (&raw const __ehdr_start).cast()
        && (file.starts_with(b"libc.so") || file.starts_with(b"libpthread.so"))
}

/// The module that has this address.
fn module_of(addr: *mut c_void) -> Option<libc::Dl_info> {
    // SAFETY: plain numbers; the loader fills them in.
    unsafe {
        let mut module_of = mem::zeroed();
        (libc::dladdr(addr, &raw mut module_of) != 0).then_some(module_of)
    }
}

/// The C library's, behind us, or in front where we were linked and are not preloaded.
fn real() -> usize {
    static REAL: AtomicUsize = AtomicUsize::new(0);
    match REAL.load(Ordering::Relaxed) {
        0 => {
            let look = |handle| {
                // SAFETY: names are C strings.
                unsafe { dlvsym(handle, c"dlsym".as_ptr(), c"GLIBC_2.2.5".as_ptr()) as usize }
            };
            let found = match look(libc::RTLD_NEXT) {
                0 => look(libc::RTLD_DEFAULT),
                found => found,
            };
            if found == 0 {
                crate::end::missing(c"dlsym");
            }
            REAL.store(found, Ordering::Relaxed);
            found
        }
        found => found,
    }
}
