//! Waits for signals: `sigwait` and its variants, `pause` and `sigsuspend`.

use super::{cancel::exit_cancelled, wait_limit::WaitLimit};
use crate::{
    gate::Gate,
    signals::{Info, SentSignal, SignalSet, only},
    state::Runtime,
    sys,
    thread::Pending,
    turn::Turn,
};
use unsnarl_model::{Flags, Op};

type Mask = libc::sigset_t;
type Time = libc::timespec;

/// Waits for and takes one of these signals; returns an error number otherwise.
#[allow(improper_ctypes_definitions, reason = "called only from Rust; the ABI lets it unwind")]
extern "C-unwind" fn await_signal(
    runtime: &mut Runtime,
    set: SignalSet,
    wait_limit: WaitLimit,
    pc: u64,
) -> Result<SentSignal, i32> {
    let set = set & !only(libc::SIGKILL) & !only(libc::SIGSTOP);
    let turn = match wait_limit {
        WaitLimit::None => {
            runtime.try_turn(Op::SigWait, 0, pc);
            Turn::Go
        }
        WaitLimit::Until(deadline) => runtime.wait_turn(Pending {
            op: Op::SigWait,
            pc,
            addr: 0,
            gate: Gate::Signal(set),
            deadline,
            cancellable: true,
        }),
    };
    if turn == Turn::Go {
        let state = &mut runtime.state;
        let here = state.take_signal(set);
        if let Some(sent) = here.as_ref().filter(|sent| sent.event.is_none()) {
            state.record_arrival(Op::SigWait, sent);
        }
        if let Some(sent) = here.or_else(|| SentSignal::find(|| state.take_awaited())) {
            runtime.log_woken(Op::SigWait, Flags::NONE, pc, (sent.signal as usize, 0), sent.event);
            return Ok(sent);
        }
    }
    let flags = if turn == Turn::Go { Flags::FAILED } else { turn.flags() };
    runtime.log_woken(Op::SigWait, flags, pc, (0, 0), None);
    match turn {
        Turn::Cancelled => exit_cancelled(),
        Turn::Interrupted => Err(libc::EINTR),
        _ => Err(libc::EAGAIN),
    }
}

/// Waits until a handler has run.
#[allow(improper_ctypes_definitions, reason = "called only from Rust; the ABI lets it unwind")]
extern "C-unwind" fn pause_until_handled(runtime: &mut Runtime, pc: u64) -> Turn {
    let gate = Gate::Signal(0);
    let pending = Pending { op: Op::SigPause, pc, addr: 0, gate, deadline: u64::MAX, cancellable: true };
    let turn = runtime.wait_turn(pending);
    let flags = if turn == Turn::Cancelled { turn.flags() } else { Flags::NONE };
    runtime.log(Op::SigPause, flags, pc, 0, 0);
    turn
}

/// Converts the outcome to the result of the C functions: the signal or an error.
unsafe fn return_signal(taken: Result<SentSignal, i32>, place: *mut Info) -> i32 {
    match taken {
        Ok(sent) => {
            if !place.is_null() {
                // SAFETY: the program passed this address for the result.
                unsafe { *place = sent.info.as_awaited() };
            }
            sent.signal
        }
        Err(error) => {
            sys::set_errno(error);
            -1
        }
    }
}

hooks! {
    fn sigwait(set: *const Mask, place: *mut i32) -> i32, |runtime, pc| {
        let set = *set.cast::<SignalSet>();
        loop {
            // Handlers of other signals do not end the wait.
            match await_signal(runtime, set, WaitLimit::FOREVER, pc) {
                Ok(sent) => {
                    *place = sent.signal;
                    return 0;
                }
                Err(libc::EINTR) => {}
                Err(error) => return error,
            }
        }
    }

    fn sigwaitinfo(set: *const Mask, place: *mut Info) -> i32, |runtime, pc| {
        let set = *set.cast::<SignalSet>();
        return_signal(await_signal(runtime, set, WaitLimit::FOREVER, pc), place)
    }

    fn sigtimedwait(set: *const Mask, place: *mut Info, time: *const Time) -> i32, |runtime, pc| {
        let set = *set.cast::<SignalSet>();
        let Ok(wait_limit) = WaitLimit::of_time(runtime, time) else {
            return return_signal(Err(libc::EINVAL), place);
        };
        return_signal(await_signal(runtime, set, wait_limit, pc), place)
    }

    fn pause() -> i32, |runtime, pc| {
        if pause_until_handled(runtime, pc) == Turn::Cancelled { exit_cancelled() }
        sys::set_errno(libc::EINTR);
        -1
    }

    fn sigsuspend(mask: *const Mask) -> i32, |runtime, pc| {
        let before = runtime.state.mask();
        runtime.state.set_mask(*mask.cast::<SignalSet>());
        let me = runtime.state.me();
        me.must_check_signals = true;
        let turn = pause_until_handled(runtime, pc);
        runtime.state.set_mask(before);
        if turn == Turn::Cancelled { exit_cancelled() }
        sys::set_errno(libc::EINTR);
        -1
    }
}
