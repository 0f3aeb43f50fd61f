//! Random numbers, from the plan's entropy.

use crate::{log::c_bytes, state::Runtime, sys};
use core::{
    ffi::{c_char, c_void},
    slice,
};
use unsnarl_model::Misuse;

/// The number of bytes that can be read from a random device.
const DEVICE_BYTES: usize = 1 << 20;

/// Opens a file of numbers from the plan instead of a random device; returns `None` for other paths.
pub(super) fn device(runtime: &mut Runtime, pc: u64, path: *const c_char, flags: i32) -> Option<i32> {
    if path.is_null() || !matches!(c_bytes(path), b"/dev/urandom" | b"/dev/random") {
        return None;
    }
    let Some(file) = unnamed_file(flags & libc::O_CLOEXEC != 0) else {
        runtime.state.warn(
            Misuse::NotModelled,
            pc,
            0,
            "random numbers of a device (memfd_create is forbidden)",
        );
        return None;
    };
    let mut block = [0u8; 4096];
    for at in (0..DEVICE_BYTES).step_by(block.len()) {
        runtime.state.random().fill(&mut block);
        // SAFETY: the kernel only reads the bytes.
        unsafe { sys::call(libc::SYS_pwrite64, [file, block.as_ptr() as usize, block.len(), at, 0, 0]) };
    }
    i32::try_from(file).ok()
}

/// Creates a file in memory, or else in a directory for temporary files; it vanishes when it is closed.
fn unnamed_file(close_on_exec: bool) -> Option<usize> {
    let (in_memory, elsewhere) = if close_on_exec { (libc::MFD_CLOEXEC, libc::O_CLOEXEC) } else { (0, 0) };
    let name = c"random".as_ptr() as usize;
    // SAFETY: creates a file that only the runtime knows.
    let file = unsafe { sys::call(libc::SYS_memfd_create, [name, in_memory as usize, 0, 0, 0, 0]) };
    if let Ok(file) = usize::try_from(file) {
        return Some(file);
    }
    let flags = (libc::O_TMPFILE | libc::O_RDWR | elsewhere) as usize;
    [c"/dev/shm", c"/tmp", c"/var/tmp"].into_iter().find_map(|directory| {
        let args = [libc::AT_FDCWD as usize, directory.as_ptr() as usize, flags, 0o600, 0, 0];
        // SAFETY: as above.
        usize::try_from(unsafe { sys::call(libc::SYS_openat, args) }).ok()
    })
}

hooks! {
    fn getrandom(buffer: *mut c_void, size: usize, flags: u32) -> isize, |runtime, pc| {
        runtime.state.random().fill(slice::from_raw_parts_mut(buffer.cast(), size));
        size as isize
    }

    fn getentropy(buffer: *mut c_void, size: usize) -> i32, |runtime, pc| {
        if size > 256 {
            sys::set_errno(libc::EIO);
            return -1;
        }
        runtime.state.random().fill(slice::from_raw_parts_mut(buffer.cast(), size));
        0
    }

    fn _ZNSt13random_device9_M_getvalEv(device: *mut c_void) -> u32, |runtime, pc| {
        // C++'s `std::random_device` asks the processor, which cannot be intercepted otherwise.
        runtime.state.random().next() as u32
    }

    fn getauxval(kind: u64) -> u64, |runtime, pc| {
        if kind == libc::AT_RANDOM { runtime.state.log.note_random() }
        real::getauxval(kind)
    }

    fn arc4random() -> u32, |runtime, pc| {
        runtime.state.random().next() as u32
    }

    fn arc4random_buf(buffer: *mut c_void, size: usize) -> (), |runtime, pc| {
        runtime.state.random().fill(slice::from_raw_parts_mut(buffer.cast(), size));
    }

    fn arc4random_uniform(bound: u32) -> u32, |runtime, pc| {
        (((runtime.state.random().next() >> 32) * u64::from(bound)) >> 32) as u32
    }
}
