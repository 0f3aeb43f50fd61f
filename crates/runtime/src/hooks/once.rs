//! `pthread_once`. The real function runs the routine, because it handles an exception or a cancellation that
//! leaves the routine; no other thread enters meanwhile.

use crate::{gate::Gate, state::Runtime, thread::Pending};
use unsnarl_model::{Flags, Op};

const DONE: i32 = 2;

type Routine = unsafe extern "C-unwind" fn();

/// Runs the program's routine and logs its end while the control is still marked as running.
unsafe extern "C-unwind" fn run() {
    let Some((routine, pc, control)) = Runtime::enter().and_then(|r| r.state.me().once.last().copied())
    else {
        return;
    };
    // SAFETY: the program's routine.
    unsafe { routine() };
    if let Some(runtime) = Runtime::enter() {
        runtime.turn(Op::OnceEnd, control as usize, pc as u64);
        runtime.log(Op::OnceEnd, Flags::NONE, pc as u64, control as usize, 0);
    }
}

hooks! {
    fn pthread_once(control: *mut i32, routine: Routine) -> i32, |runtime, pc| {
        once(runtime, control, routine, pc)
    }
}

/// Runs the routine once; also used for C11's `call_once`.
pub(super) unsafe extern "C-unwind" fn once(
    runtime: &'static mut Runtime,
    control: *mut i32,
    routine: Routine,
    pc: u64,
) -> i32 {
    let gate = Gate::Once(control);
    let pending =
        Pending { op: Op::OncePass, pc, addr: control as u64, gate, deadline: u64::MAX, cancellable: false };
    runtime.wait_turn(pending);
    // SAFETY: the program's control.
    if unsafe { *control } & DONE != 0 {
        runtime.log(Op::OncePass, Flags::NONE, pc, control as usize, 0);
        return 0;
    }
    runtime.log(Op::OnceBegin, Flags::NONE, pc, control as usize, 0);
    runtime.state.me().once.push((routine, pc as usize, control));
    // SAFETY: the control is free, so the real function runs the routine without waiting.
    let error = unsafe { real::pthread_once(control, run) };
    if let Some(runtime) = Runtime::enter() {
        runtime.state.me().once.pop();
    }
    error
}
