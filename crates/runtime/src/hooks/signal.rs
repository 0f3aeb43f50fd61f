//! Signals: actions, masks and the alternate stack of handlers.

use crate::{
    handlers,
    signals::only,
    state::Runtime,
    sys,
    unblockable::{self, MaskChange},
};
use core::{
    ffi::c_void,
    mem,
    sync::atomic::{AtomicU64, Ordering},
};
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

/// The signals for which `siginterrupt` asked that `signal` does not restart operations.
static INTERRUPTING: AtomicU64 = AtomicU64::new(0);

fn is_interrupting(signal: i32) -> bool {
    (1..=64).contains(&signal) && INTERRUPTING.load(Ordering::Relaxed) & only(signal) != 0
}

/// `signal` and its variants, which differ in the flags.
unsafe extern "C-unwind" fn install(
    runtime: &mut Runtime,
    signal: i32,
    handler: usize,
    flags: i32,
    pc: u64,
) -> usize {
    // SAFETY: all zeros is an action, and the program's handler is passed on.
    unsafe {
        let flags = if is_interrupting(signal) { flags & !libc::SA_RESTART } else { flags };
        let mut new: Action = mem::zeroed();
        let mut old: Action = mem::zeroed();
        (new.sa_sigaction, new.sa_flags) = (handler, flags);
        if handler == libc::SIG_ERR {
            sys::set_errno(libc::EINVAL);
            return libc::SIG_ERR;
        }
        if flags & libc::SA_NODEFER == 0 {
            libc::sigaddset(&raw mut new.sa_mask, signal);
        }
        let error = set_action(runtime, signal, &raw const new, &raw mut old, pc);
        if error == 0 { old.sa_sigaction } else { libc::SIG_ERR }
    }
}

/// Blocks or unblocks one signal.
unsafe extern "C-unwind" fn change_mask(how: i32, signal: i32, pc: u64) -> i32 {
    // SAFETY: a local set.
    unsafe {
        let mut set: Mask = mem::zeroed();
        if libc::sigaddset(&raw mut set, signal) != 0 {
            return -1;
        }
        controlled::sigprocmask(how, &raw const set, core::ptr::null_mut(), pc)
    }
}

/// The C library's functions for masks.
type ChangeMask = unsafe extern "C-unwind" fn(i32, *const Mask, *mut Mask) -> i32;

/// Changes or queries the running thread's mask by this function of the C library. A mere query is no event.
unsafe extern "C-unwind" fn set_mask(
    runtime: &mut Runtime,
    how: i32,
    new: *const Mask,
    old: *mut Mask,
    pc: u64,
    real: ChangeMask,
) -> i32 {
    // SAFETY: the program's sets, which may be one and the same.
    unsafe {
        let Some(new) = new.as_ref() else {
            let error = real(how, new, old);
            runtime.state.complete_mask(old);
            return error;
        };
        let change = MaskChange::new(how, new);
        runtime.turn(Op::SigMask, 0, pc);
        runtime.state.take_kept();
        let error = real(how, &raw const change.for_kernel, old);
        if error == 0 {
            runtime.state.complete_mask(old);
            runtime.state.note_mask_change(&change);
        }
        runtime.state.send_kept_again();
        mask_changed(runtime, error == 0, pc);
        error
    }
}

/// Logs the running thread's new mask and handles the signals that it no longer blocks.
extern "C-unwind" fn mask_changed(runtime: &mut Runtime, done: bool, pc: u64) {
    runtime.state.masks_differ = true;
    let mask = runtime.state.mask();
    let flags = if done { Flags::NONE } else { Flags::FAILED };
    runtime.log(Op::SigMask, flags, pc, 0, unblockable::mask(mask));
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
        install(runtime, signal, handler, libc::SA_RESTART, pc)
    }

    fn bsd_signal(signal: i32, handler: usize) -> usize, |runtime, pc| {
        install(runtime, signal, handler, libc::SA_RESTART, pc)
    }

    fn ssignal(signal: i32, handler: usize) -> usize, |runtime, pc| {
        install(runtime, signal, handler, libc::SA_RESTART, pc)
    }

    fn sysv_signal(signal: i32, handler: usize) -> usize, |runtime, pc| {
        install(runtime, signal, handler, libc::SA_RESETHAND | libc::SA_NODEFER, pc)
    }

    fn __sysv_signal(signal: i32, handler: usize) -> usize, |runtime, pc| {
        install(runtime, signal, handler, libc::SA_RESETHAND | libc::SA_NODEFER, pc)
    }

    fn sigignore(signal: i32) -> i32, |runtime, pc| {
        if install(runtime, signal, libc::SIG_IGN, 0, pc) == libc::SIG_ERR { -1 } else { 0 }
    }

    fn siginterrupt(signal: i32, fails: i32) -> i32, |runtime, pc| {
        let mut action: Action = mem::zeroed();
        if handlers::exchange(signal, core::ptr::null(), &raw mut action) != 0 { return -1 }
        let one = only(signal);
        if fails != 0 {
            INTERRUPTING.fetch_or(one, Ordering::Relaxed);
            action.sa_flags &= !libc::SA_RESTART;
        } else {
            INTERRUPTING.fetch_and(!one, Ordering::Relaxed);
            action.sa_flags |= libc::SA_RESTART;
        }
        set_action(runtime, signal, &raw const action, core::ptr::null_mut(), pc)
    }

    fn sighold(signal: i32) -> i32, |runtime, pc| {
        change_mask(libc::SIG_BLOCK, signal, pc)
    }

    fn sigrelse(signal: i32) -> i32, |runtime, pc| {
        change_mask(libc::SIG_UNBLOCK, signal, pc)
    }

    fn pthread_sigmask(how: i32, new: *const Mask, old: *mut Mask) -> i32, |runtime, pc| {
        set_mask(runtime, how, new, old, pc, real::pthread_sigmask)
    }

    fn sigprocmask(how: i32, new: *const Mask, old: *mut Mask) -> i32, |runtime, pc| {
        set_mask(runtime, how, new, old, pc, real::sigprocmask)
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
