//! The functions of `unsnarl.h` and the crate `unsnarl-hints`. They replace no other function: a program
//! finds them only if this library is loaded, and they do nothing without a controlled run.

use crate::{atomic::exported, end, log::c_bytes, state::Runtime};
use core::ffi::c_char;
use unsnarl_model::{Flags, Op};

/// A schedule point set by the program.
unsafe extern "C-unwind" fn point(name: *const c_char, pc: u64) {
    if let Some(runtime) = Runtime::enter() {
        runtime.turn(Op::Point, 0, pc);
        runtime.log(Op::Point, Flags::NONE, pc, 0, name as u64);
    }
}
exported!("rsi" "__unsnarl_point", point);

/// The point at which the search begins.
unsafe extern "C-unwind" fn checkpoint(pc: u64) {
    if let Some(runtime) = Runtime::enter() {
        runtime.turn(Op::Checkpoint, 0, pc);
        runtime.picker.begin();
        runtime.log(Op::Checkpoint, Flags::NONE, pc, 0, 0);
    }
}
exported!("rdi" "__unsnarl_checkpoint", checkpoint);

/// Returns whether the run is controlled.
unsafe extern "C-unwind" fn controls(_pc: u64) -> i32 {
    i32::from(Runtime::enter().is_some())
}
exported!("rdi" "__unsnarl_controls", controls);

/// Reports a failed assertion of the program.
unsafe extern "C-unwind" fn fail(name: *const c_char, _pc: u64) {
    if let Some(runtime) = Runtime::enter() {
        end::assertion(&runtime.state, c_bytes(name));
    }
}
exported!("rsi" "__unsnarl_fail", fail);

/// Enters (1) or leaves (-1) a region in which no other thread may run.
unsafe extern "C-unwind" fn undivided(change: i32, _pc: u64) {
    if let Some(runtime) = Runtime::enter() {
        let me = runtime.state.me();
        let was_outside = me.undivided == 0;
        me.undivided = me.undivided.saturating_add_signed(change);
        me.region_flags.set(if me.undivided > 0 { Flags::UNDIVIDED } else { Flags::NONE });
        if was_outside && me.undivided > 0 {
            let thread = me.ix;
            runtime.state.log.mark_last(thread, Flags::ENTERS_REGION);
        }
    }
}
exported!("rsi" "__unsnarl_undivided", undivided);
