//! Sending signals to a thread or to the process. Signals to other processes go to the kernel.

use super::ids;
use crate::{
    signals::{Info, SentSignal},
    state::Runtime,
    sys,
};
use unsnarl_model::{Flags, Op, ThreadIx};

/// Sends a signal to a thread or to the process; returns the error number.
#[allow(improper_ctypes_definitions, reason = "called only from Rust; the ABI lets it unwind")]
pub(super) extern "C-unwind" fn send(
    runtime: &mut Runtime,
    (signal, code, value): (i32, i32, u64),
    to: Option<ThreadIx>,
    pc: u64,
) -> i32 {
    match signal {
        0 => return 0,
        // These cannot be blocked, handled or ignored.
        libc::SIGKILL | libc::SIGSTOP => {
            let process = sys::process() as usize;
            // SAFETY: the program asked for it.
            return -unsafe { sys::call(libc::SYS_kill, [process, signal as usize, 0, 0, 0, 0]) } as i32;
        }
        1..=64 => {}
        _ => return libc::EINVAL,
    }
    runtime.turn(Op::SigSend, signal as usize, pc);
    let state = &mut runtime.state;
    let sent = SentSignal { signal, info: Info::sent(signal, code, value), event: Some(state.log.count()) };
    let flags = if state.send(sent, to) { Flags::NONE } else { Flags::FAILED };
    runtime.log(Op::SigSend, flags, pc, signal as usize, to.map_or(u64::MAX, |thread| thread.0.into()));
    if to.is_none_or(|thread| thread == runtime.state.current) {
        runtime.handle_due(pc);
    }
    0
}

/// Sends a signal to the thread with this id.
pub(super) extern "C-unwind" fn send_to_tid(runtime: &mut Runtime, thread: i32, signal: i32, pc: u64) -> i32 {
    let target = u32::try_from(thread).ok().and_then(|tid| runtime.state.by_tid(tid));
    let Some(target) = target.filter(|t| !runtime.state.threads[t.index()].ended) else { return libc::ESRCH };
    send(runtime, (signal, libc::SI_TKILL, 0), Some(target), pc)
}

/// Converts an error number to the result of C functions.
fn result(error: i32) -> i32 {
    if error == 0 {
        return 0;
    }
    sys::set_errno(error);
    -1
}

hooks! {
    fn pthread_kill(handle: usize, signal: i32) -> i32, |runtime, pc| {
        let Some(target) = runtime.state.by_handle(handle) else { return libc::ESRCH };
        send(runtime, (signal, libc::SI_TKILL, 0), Some(target), pc)
    }

    fn pthread_sigqueue(handle: usize, signal: i32, value: u64) -> i32, |runtime, pc| {
        let Some(target) = runtime.state.by_handle(handle) else { return libc::ESRCH };
        send(runtime, (signal, libc::SI_QUEUE, value), Some(target), pc)
    }

    fn raise(signal: i32) -> i32, |runtime, pc| {
        let me = runtime.state.current;
        result(send(runtime, (signal, libc::SI_TKILL, 0), Some(me), pc))
    }

    fn tgkill(process: i32, thread: i32, signal: i32) -> i32, |runtime, pc| {
        if !ids::is_own(process) {
            return result(-sys::call(libc::SYS_tgkill, [process as usize, thread as usize, signal as usize, 0, 0, 0]) as i32);
        }
        result(send_to_tid(runtime, thread, signal, pc))
    }

    fn kill(process: i32, signal: i32) -> i32, |runtime, pc| {
        if !ids::is_own(process) {
            let process = ids::to_real(process) as usize;
            return result(-sys::call(libc::SYS_kill, [process, signal as usize, 0, 0, 0, 0]) as i32);
        }
        result(send(runtime, (signal, libc::SI_USER, 0), None, pc))
    }

    fn sigqueue(process: i32, signal: i32, value: u64) -> i32, |runtime, pc| {
        if !ids::is_own(process) { return real::sigqueue(process, signal, value) }
        result(send(runtime, (signal, libc::SI_QUEUE, value), None, pc))
    }
}
