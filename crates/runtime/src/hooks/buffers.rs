//! Buffers that the kernel and the C library access on behalf of the program.
//!
//! A call that reads a buffer is an access before the call. How many bytes a call writes to a buffer is known
//! only after it: on a file, schedule point, call and access are one step. On a pipe, socket or similar, the
//! operation on the descriptor is an event already, so that the access needs none: only the race detector
//! sees it.

use super::io::{Answer, Vector};
use crate::{access, log::c_bytes, state::Runtime, sys};
use core::ffi::{c_char, c_void};
use unsnarl_model::{Flags, Op};
use unsnarl_race::Access;

/// Returns whether accesses of this call are observed. Calls by Rust's prebuilt library are not: it orders
/// accesses to its own buffers in ways that are not seen.
fn is_observed(runtime: &Runtime, pc: u64) -> bool {
    let state = &runtime.state;
    access::is_observing() && !(state.atomic_values.has_prebuilt_library() && state.modules.is_program(pc))
}

/// Handles the read of a buffer that a call of the C library is about to make.
pub(super) fn read(runtime: &Runtime, place: *const c_void, size: usize, pc: u64) {
    if is_observed(runtime, pc) {
        access::range(Op::Read, place as usize, size, pc);
    }
}

/// Like [`read`], for a text that ends with a zero.
pub(super) fn read_text(runtime: &Runtime, text: *const c_char, pc: u64) {
    if is_observed(runtime, pc) && !text.is_null() {
        access::range(Op::Read, text as usize, c_bytes(text).len() + 1, pc);
    }
}

/// Handles the read of buffers that a system call is about to make.
pub(super) unsafe fn read_by_kernel(runtime: &Runtime, vectors: *const Vector, count: usize, pc: u64) {
    if !is_observed(runtime, pc) || !sys::is_readable(vectors as usize) {
        return;
    }
    for at in 0..count {
        // SAFETY: the program's vectors.
        let Vector { iov_base: place, iov_len: size } = unsafe { *vectors.add(at) };
        // The kernel fails if there is no such memory, and the program may handle that.
        if size > 0 && sys::is_readable(place as usize) && sys::is_readable(place as usize + size - 1) {
            access::range(Op::Read, place as usize, size, pc);
        }
    }
}

/// Makes a call that writes to a buffer of this size; it returns the number of bytes. `is_file`: the call is
/// no event by itself.
#[allow(improper_ctypes_definitions, reason = "called only from Rust; the ABI lets it unwind")]
pub(super) extern "C-unwind" fn fill(
    runtime: &mut Runtime,
    (place, size): (*mut c_void, usize),
    is_file: bool,
    pc: u64,
    call: impl FnOnce(&mut Runtime) -> Answer,
) -> Answer {
    let addr = place as usize;
    if size == 0 || !is_observed(runtime, pc) || !sys::is_readable(addr) {
        return call(runtime);
    }
    let is_point = is_file && runtime.is_point(pc);
    if is_point {
        runtime.turn(Op::Write, addr, pc);
    }
    // SAFETY: the program's buffer, which is mapped.
    let before = unsafe { access::value_at(addr, size.min(8) as u64) };
    let answer = call(runtime);
    let written = match answer {
        Ok(bytes @ 1..) => (bytes as usize).min(size),
        _ => 0,
    };
    let own_stack = runtime.is_on_own_stack(addr);
    if written > 0 {
        let thread = runtime.state.current;
        let size = written as u64;
        runtime.watch(&Access { thread, op: Op::Write, addr: addr as u64, size, own_stack, tag: pc });
    }
    if is_point {
        let flags = if own_stack { Flags::OWN_STACK } else { Flags::NONE };
        runtime.log_watched(Op::Write, flags, pc, (addr, written.max(1) as u64), before);
    }
    answer
}

/// Notes the bytes that a system call on a pipe, socket or similar has written to these buffers.
pub(super) unsafe fn filled(
    runtime: &mut Runtime,
    vectors: *const Vector,
    count: usize,
    pc: u64,
    bytes: isize,
) {
    if bytes <= 0 || !is_observed(runtime, pc) {
        return;
    }
    let mut left = bytes as usize;
    for at in 0..count {
        // SAFETY: the program's vectors, which the kernel has just used.
        let Vector { iov_base: place, iov_len: size } = unsafe { *vectors.add(at) };
        let size = size.min(left);
        left -= size;
        if size > 0 {
            let own_stack = runtime.is_on_own_stack(place as usize);
            let thread = runtime.state.current;
            let (addr, size) = (place as u64, size as u64);
            runtime.watch(&Access { thread, op: Op::Write, addr, size, own_stack, tag: pc });
        }
    }
}
