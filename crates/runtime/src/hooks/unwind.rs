//! Rust panics, observed when they begin to unwind. The panic's stack is gone by the time the program ends,
//! so it is copied here.

use crate::{
    real::Real,
    stack::{pop_callee_saved, push_callee_saved},
    state::Runtime,
    tracer,
};
use core::{arch::naked_asm, ffi::c_void, sync::atomic::Ordering};

/// The exception classes of Rust; older toolchains wrote the bytes in reverse order.
const RUST: [u64; 2] = [u64::from_le_bytes(*b"MOZ\0RUST"), u64::from_be_bytes(*b"MOZ\0RUST")];

/// `_Unwind_RaiseException(exception)`: inspects the exception, then jumps to the real function.
#[unsafe(naked)]
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn _Unwind_RaiseException() {
    naked_asm!(
        push_callee_saved!(),
        "push rdi",
        "mov rsi, rsp",
        "call {}",
        "pop rdi",
        pop_callee_saved!(),
        "jmp rax",
        sym record_panic
    )
}

/// Records a panic; returns the address of the real function. `saved` holds rdi, r15 to r12, rbx, rbp and the
/// return address.
unsafe extern "C" fn record_panic(exception: *const u64, saved: *const u64) -> *mut c_void {
    static REAL: Real = Real::new(c"_Unwind_RaiseException");
    // SAFETY: an exception begins with its class; the words were just pushed.
    unsafe {
        if let Some(runtime) = Runtime::enter()
            && RUST.contains(&*exception)
        {
            let state = &mut runtime.state;
            tracer::unwinding(state.current, state.log.count());
            let header = state.log.header();
            if header.panicked.load(Ordering::Relaxed) == 0 {
                header.panicked.store(u32::from(state.current.0) + 1, Ordering::Release);
                let word = |n: usize| *saved.add(n);
                let registers =
                    [word(7), saved.add(8) as u64, word(6), word(5), word(4), word(3), word(2), word(1)];
                let top = state.me().stack_top;
                state.log.stack(state.current, registers, top);
            }
        }
    }
    REAL.address()
}
