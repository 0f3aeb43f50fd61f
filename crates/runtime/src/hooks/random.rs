//! Random numbers, from the plan's entropy.

use crate::sys;
use core::{ffi::c_void, slice};

hooks! {
    fn getrandom(buffer: *mut c_void, size: usize, flags: u32) -> isize, |runtime, pc| {
        runtime.state.entropy.fill(slice::from_raw_parts_mut(buffer.cast(), size));
        size as isize
    }

    fn getentropy(buffer: *mut c_void, size: usize) -> i32, |runtime, pc| {
        if size > 256 {
            sys::set_errno(libc::EIO);
            return -1;
        }
        runtime.state.entropy.fill(slice::from_raw_parts_mut(buffer.cast(), size));
        0
    }

    fn _ZNSt13random_device9_M_getvalEv(device: *mut c_void) -> u32, |runtime, pc| {
        // C++'s `std::random_device` asks the processor, which nobody else can be made to answer for.
        runtime.state.entropy.next() as u32
    }

    fn arc4random() -> u32, |runtime, pc| {
        runtime.state.entropy.next() as u32
    }

    fn arc4random_buf(buffer: *mut c_void, size: usize) -> (), |runtime, pc| {
        runtime.state.entropy.fill(slice::from_raw_parts_mut(buffer.cast(), size));
    }

    fn arc4random_uniform(bound: u32) -> u32, |runtime, pc| {
        (((runtime.state.entropy.next() >> 32) * u64::from(bound)) >> 32) as u32
    }
}
