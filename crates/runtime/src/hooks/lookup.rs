//! Looking up functions by name. A library that asks for the next definition behind itself would bypass the
//! runtime: jemalloc finds the function that starts its background threads this way, to avoid wrappers in the
//! program. A thread started through it would not be controlled.
//!
//! Only this one lookup is answered differently. Another library may interpose the same function: the runtime
//! calls it as the next definition, and behind it is the C library. If such a library exists, every lookup
//! gets the loader's answer, so that no interposer is called twice. The program precedes the runtime in the
//! search order and finds the runtime anyway. Sanitizers in the program look functions up before anything is
//! initialised: this code needs no initialisation and calls no C library function that they interpose.

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

/// The C library inspects its caller's address, so it is reached by a jump.
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

/// Returns the function that answers the lookup.
unsafe extern "C" fn resolver(handle: *mut c_void, name: *const c_char, caller: *mut c_void) -> usize {
    // SAFETY: the caller passes a C string.
    if handle == libc::RTLD_NEXT && unsafe { starts_threads(name) } && is_lookup_beyond_runtime(caller) {
        return runtime_definition as *const () as usize;
    }
    real()
}

/// Returns whether this is the function that starts threads. `strcmp` may be interposed by a library that is
/// not initialised yet.
///
/// # Safety
///
/// `name` is a C string.
unsafe fn starts_threads(name: *const c_char) -> bool {
    // SAFETY: reads no further than the first differing byte, and so not beyond the terminating zero.
    STARTS_THREADS
        .to_bytes_with_nul()
        .iter()
        .enumerate()
        .all(|(at, &byte)| unsafe { *name.add(at) } as u8 == byte)
}

unsafe extern "C" fn runtime_definition() -> usize {
    super::thread::start_thread as *const () as usize
}

/// Returns whether another library looks up the function and the definition behind the runtime is the C
/// library's. Other interposers would find the runtime behind themselves, and the runtime calls them.
fn is_lookup_beyond_runtime(caller: *mut c_void) -> bool {
    // SAFETY: the address is the real `dlsym`, called with its arguments.
    let behind_us = unsafe {
        let lookup: unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void = mem::transmute(real());
        lookup(libc::RTLD_NEXT, STARTS_THREADS.as_ptr())
    };
    let (Some(caller), Some(behind_us)) = (module_of(caller), module_of(behind_us)) else { return false };
    let file = c_bytes(behind_us.dli_fname).rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    caller.dli_fbase.cast_const() != (&raw const __ehdr_start).cast()
        && (file.starts_with(b"libc.so") || file.starts_with(b"libpthread.so"))
}

/// Returns the module that contains this address.
fn module_of(addr: *mut c_void) -> Option<libc::Dl_info> {
    // SAFETY: plain numbers, which the loader fills in.
    unsafe {
        let mut module = mem::zeroed();
        (libc::dladdr(addr, &raw mut module) != 0).then_some(module)
    }
}

/// Returns the C library's definition: behind the runtime, or before it if the runtime was linked and not
/// preloaded.
fn real() -> usize {
    static REAL: AtomicUsize = AtomicUsize::new(0);
    match REAL.load(Ordering::Relaxed) {
        0 => {
            let lookup = |handle| {
                // SAFETY: the names are C strings.
                unsafe { dlvsym(handle, c"dlsym".as_ptr(), c"GLIBC_2.2.5".as_ptr()) as usize }
            };
            let found = match lookup(libc::RTLD_NEXT) {
                0 => lookup(libc::RTLD_DEFAULT),
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
