//! Guards of C++ function-level statics: once controls that the compiler emits.

use crate::{gate::Gate, thread::Pending};
use unsnarl_model::{Flags, Op};

hooks! {
    fn __cxa_guard_acquire(guard: *mut u8) -> i32, |runtime, pc| {
        let gate = Gate::Guard(guard);
        let pending = Pending { op: Op::OncePass, pc, addr: guard as u64, gate, deadline: u64::MAX, cancellable: false };
        runtime.wait_turn(pending);
        let done = *guard != 0;
        runtime.log(if done { Op::OncePass } else { Op::OnceBegin }, Flags::NONE, pc, guard as usize, 0);
        real::__cxa_guard_acquire(guard)
    }

    fn __cxa_guard_release(guard: *mut u8) -> (), |runtime, pc| {
        runtime.turn(Op::OnceEnd, guard as usize, pc);
        real::__cxa_guard_release(guard);
        runtime.state.changed(guard as usize);
        runtime.log(Op::OnceEnd, Flags::NONE, pc, guard as usize, 0);
    }

    fn __cxa_guard_abort(guard: *mut u8) -> (), |runtime, pc| {
        runtime.turn(Op::OnceEnd, guard as usize, pc);
        real::__cxa_guard_abort(guard);
        runtime.state.changed(guard as usize);
        runtime.log(Op::OnceEnd, Flags::FAILED, pc, guard as usize, 0);
    }
}
