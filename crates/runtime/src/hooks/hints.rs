//! What programs tell us by `unsnarl.h` and the crate `unsnarl-hints`. These functions stand in for nobody: a
//! program finds them only where this library is, and they do nothing unless there is a run to control.

use crate::{atomic::exported, end, log::c_bytes, state::Runtime};
use core::ffi::c_char;
use unsnarl_model::{Flags, Op};

/// A schedule point of the program's own.
unsafe extern "C-unwind" fn point(name: *const c_char, pc: u64) {
    if let Some(runtime) = Runtime::enter() {
        runtime.turn(Op::Point, 0, pc);
        runtime.log(Op::Point, Flags::NONE, pc, 0, name as u64);
    }
}
exported!("rsi" "__unsnarl_point", point);

/// The search begins here.
unsafe extern "C-unwind" fn checkpoint(pc: u64) {
    if let Some(runtime) = Runtime::enter() {
        runtime.turn(Op::Checkpoint, 0, pc);
        runtime.picker.begin();
        runtime.log(Op::Checkpoint, Flags::NONE, pc, 0, 0);
    }
}
exported!("rdi" "__unsnarl_checkpoint", checkpoint);

/// Whether there is a run to control.
unsafe extern "C-unwind" fn controls(_pc: u64) -> i32 {
    i32::from(Runtime::enter().is_some())
}
exported!("rdi" "__unsnarl_controls", controls);

/// An assertion of the program's own does not hold.
unsafe extern "C-unwind" fn fail(name: *const c_char, _pc: u64) {
    if let Some(runtime) = Runtime::enter() {
        end::assertion(&runtime.state, c_bytes(name));
    }
}
exported!("rsi" "__unsnarl_fail", fail);

/// The thread enters a region in which nobody else may run (1), or leaves it (-1).
unsafe extern "C-unwind" fn undivided(change: i32, _pc: u64) {
    if let Some(runtime) = Runtime::enter() {
        let me = runtime.state.me();
        me.undivided = me.undivided.saturating_add_signed(change);
    }
}
exported!("rsi" "__unsnarl_undivided", undivided);
