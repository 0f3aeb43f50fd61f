//! Signals, as far as the runtime needs them itself: deadly ones, and the stack that handlers run on.

use crate::{
    crash::{self, DEADLY},
    sys,
};
use core::mem;
use unsnarl_model::Misuse;

type Action = libc::sigaction;

hooks! {
    fn sigaction(signal: i32, new: *const Action, old: *mut Action) -> i32, |runtime, pc| {
        crash::exchange(signal, new, old)
    }

    fn signal(signal: i32, handler: usize) -> usize, |runtime, pc| {
        if !DEADLY.contains(&signal) { return real::signal(signal, handler) }
        let mut new: Action = mem::zeroed();
        new.sa_sigaction = handler;
        let mut old: Action = mem::zeroed();
        crash::exchange(signal, &raw const new, &raw mut old);
        old.sa_sigaction
    }

    fn sigaltstack(new: *const libc::stack_t, old: *mut libc::stack_t) -> i32, |runtime, pc| {
        // Each thread believes in a stack of its own; handlers run on the runtime's.
        let mine = &mut runtime.state.me().alternate_stack;
        if !old.is_null() { *old = *mine }
        if !new.is_null() {
            let wanted = *new;
            if wanted.ss_flags & libc::SS_DISABLE == 0 && wanted.ss_size < libc::MINSIGSTKSZ {
                sys::set_errno(libc::ENOMEM);
                return -1;
            }
            *mine = wanted;
        }
        0
    }

    fn pthread_kill(handle: usize, signal: i32) -> i32, |runtime, pc| {
        let state = &mut runtime.state;
        let Some(target) = state.by_handle(handle) else { return libc::ESRCH };
        if signal == 0 { return 0 }
        if target != state.current {
            state.warn(Misuse::NotModelled, pc, handle, "pthread_kill of another thread");
        }
        let process = sys::process() as usize;
        -sys::call(libc::SYS_tgkill, [process, process, signal as usize, 0, 0, 0]) as i32
    }
}
