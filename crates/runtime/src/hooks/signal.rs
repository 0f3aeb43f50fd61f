//! Signals: actions, masks and the alternate stack of handlers.

use crate::{handlers, state::Runtime, sys, tracer};
use core::{ffi::c_void, mem};
use unsnarl_model::{Flags, Op};

type Action = libc::sigaction;
type Mask = libc::sigset_t;

/// `sigaction`: a mere query is no event.
unsafe extern "C-unwind" fn set_action(
    runtime: &mut Runtime,
    signal: i32,
    new: *const Action,
    old: *mut Action,
    pc: u64,
) -> i32 {
    // SAFETY: the program's actions.
    unsafe {
        if new.is_null() || !(1..=64).contains(&signal) {
            return handlers::exchange(signal, new, old);
        }
        runtime.turn(Op::SigAction, signal as usize, pc);
        let error = handlers::exchange(signal, new, old);
        if error == 0 {
            runtime.state.action_changed(signal);
        }
        let flags = if error == 0 { Flags::NONE } else { Flags::FAILED };
        runtime.log(Op::SigAction, flags, pc, signal as usize, 0);
        error
    }
}

/// Logs the running thread's new mask and handles the signals that it no longer blocks.
extern "C-unwind" fn mask_changed(runtime: &mut Runtime, done: bool, pc: u64) {
    runtime.state.masks_differ = true;
    let mask = runtime.state.mask();
    let flags = if done { Flags::NONE } else { Flags::FAILED };
    runtime.log(Op::SigMask, flags, pc, 0, tracer::logged_mask(mask));
    runtime.handle_due(pc);
}

/// Prepares for a jump, which may restore an earlier mask and leave a handler.
fn jumps(runtime: &mut Runtime) {
    runtime.state.masks_differ = true;
    runtime.state.me().must_check_signals = true;
}

hooks! {
    fn sigaction(signal: i32, new: *const Action, old: *mut Action) -> i32, |runtime, pc| {
        set_action(runtime, signal, new, old, pc)
    }

    fn signal(signal: i32, handler: usize) -> usize, |runtime, pc| {
        let mut new: Action = mem::zeroed();
        let mut old: Action = mem::zeroed();
        new.sa_sigaction = handler;
        new.sa_flags = libc::SA_RESTART;
        libc::sigaddset(&raw mut new.sa_mask, signal);
        let error = set_action(runtime, signal, &raw const new, &raw mut old, pc);
        if error == 0 { old.sa_sigaction } else { libc::SIG_ERR }
    }

    fn pthread_sigmask(how: i32, new: *const Mask, old: *mut Mask) -> i32, |runtime, pc| {
        if new.is_null() { return real::pthread_sigmask(how, new, old) }
        runtime.turn(Op::SigMask, 0, pc);
        runtime.state.take_kept();
        let error = real::pthread_sigmask(how, tracer::Mask::without_ours(new).pointer(), old);
        runtime.state.send_kept_again();
        mask_changed(runtime, error == 0, pc);
        error
    }

    fn sigprocmask(how: i32, new: *const Mask, old: *mut Mask) -> i32, |runtime, pc| {
        if new.is_null() { return real::sigprocmask(how, new, old) }
        runtime.turn(Op::SigMask, 0, pc);
        runtime.state.take_kept();
        let error = real::sigprocmask(how, tracer::Mask::without_ours(new).pointer(), old);
        runtime.state.send_kept_again();
        mask_changed(runtime, error == 0, pc);
        error
    }

    fn sigpending(set: *mut Mask) -> i32, |runtime, pc| {
        *set = mem::zeroed();
        *set.cast::<u64>() = runtime.state.pending_for_running_thread() & runtime.state.mask();
        0
    }

    fn siglongjmp(place: *mut c_void, value: i32) -> !, |runtime, pc| {
        jumps(runtime);
        real::siglongjmp(place, value)
    }

    fn longjmp(place: *mut c_void, value: i32) -> !, |runtime, pc| {
        jumps(runtime);
        real::longjmp(place, value)
    }

    fn __longjmp_chk(place: *mut c_void, value: i32) -> !, |runtime, pc| {
        jumps(runtime);
        real::__longjmp_chk(place, value)
    }

    fn sigaltstack(new: *const libc::stack_t, old: *mut libc::stack_t) -> i32, |runtime, pc| {
        // The kernel knows only the runtime's alternate stack; handlers are moved to the thread's own.
        let mine = &mut runtime.state.me().alternate_stack;
        if !old.is_null() { *old = *mine }
        if !new.is_null() {
            let requested = *new;
            if requested.ss_flags & libc::SS_DISABLE == 0 && requested.ss_size < libc::MINSIGSTKSZ {
                sys::set_errno(libc::ENOMEM);
                return -1;
            }
            *mine = requested;
        }
        0
    }
}
