//! Signals and timers. Which thread may take a signal depends on what all threads have done with signals, so
//! these operations keep their order.
//!
//! | operation | enabled | effect | touches | happens-before |
//! | --- | --- | --- | --- | --- |
//! | set action | always | none | writes the signals | releases the signal |
//! | set mask | always | none | writes the signals | none |
//! | send | always | the signal is pending | writes the signals; keeps its position among the receiver's operations, or all | before the handler that it starts |
//! | handle, wait | the signal was sent, by the program or from outside | the signal is taken | writes the signals | acquires the signal; after the event that sent it, or else acquires the timers |
//! | pause | unknown | none | writes the signals | none |
//! | set timer | always | none | writes the signals | releases the timers |
//! | timer fires | time passes | sends its signal, or makes a descriptor ready | writes the signals and channels; keeps its position if it sends a signal | acquires the timers; before the handler that it starts |

use crate::{
    OpResult, ThreadNumber,
    edge::{Edge, SyncPoint},
    machine::{Blocker, Enabled, Machine},
    touch::{SharedObject, Touch},
};
use unsnarl_model::{Event, Op, ThreadIx};

/// Stands for the whole process in [`SignalOp::Send`] events.
const PROCESS: u64 = u64::MAX;

/// An operation on signals or timers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SignalOp {
    /// A signal's action is set.
    SetAction {
        /// The signal's number.
        signal: u64,
    },
    /// The thread changes its signal mask.
    SetMask {
        /// The new mask.
        mask: u64,
    },
    /// A signal is sent.
    Send {
        /// The signal's number.
        signal: u64,
        /// The number of the receiving thread; `None` for the process.
        thread: Option<u64>,
    },
    /// The thread takes a signal and its handler begins.
    Handle {
        /// The signal's number.
        signal: u64,
        /// The event that sent it; `None` if it came from outside.
        waker: Option<u64>,
    },
    /// A wait for signals is over.
    Wait {
        /// The signal's number.
        signal: u64,
        /// The event that sent it; `None` if it came from outside.
        waker: Option<u64>,
    },
    /// A wait until a handler has run is over.
    Pause,
    /// A timer is armed or disarmed.
    SetTimer {
        /// Its expiry in virtual nanoseconds; `None` if it is disarmed.
        expiry: Option<u64>,
    },
    /// A timer expires.
    TimerFires {
        /// The signal that it sends; 0 if none.
        signal: u64,
        /// The time in virtual nanoseconds.
        time: u64,
    },
}

impl SignalOp {
    #[inline]
    pub(crate) fn decode(event: &Event) -> Self {
        let (signal, value) = (event.addr, event.value);
        match event.op {
            Op::SigAction => Self::SetAction { signal },
            Op::SigMask => Self::SetMask { mask: value },
            Op::SigSend => Self::Send { signal, thread: (value != PROCESS).then_some(value) },
            Op::SigHandle => Self::Handle { signal, waker: event.waker() },
            Op::SigWait => Self::Wait { signal, waker: event.waker() },
            Op::SigPause => Self::Pause,
            Op::TimerSet => Self::SetTimer { expiry: (value != 0).then_some(value) },
            _ => Self::TimerFires { signal, time: value },
        }
    }

    #[inline]
    pub(crate) fn touches(&self, by: ThreadIx, emit: &mut impl FnMut(Touch)) {
        emit(Touch::writes(SharedObject::Signals));
        match *self {
            // The receiver acts on it at its next operation.
            Self::Send { thread: Some(thread), .. } => match ThreadNumber(thread).known() {
                Some(receiver) if receiver != by => emit(Touch::Pin(receiver)),
                Some(_) => {}
                None => emit(Touch::Fence),
            },
            Self::Send { thread: None, .. } | Self::TimerFires { signal: 1.., .. } => emit(Touch::Fence),
            // It makes a descriptor ready.
            Self::TimerFires { signal: 0, .. } => emit(Touch::writes(SharedObject::Channels)),
            _ => {}
        }
    }

    #[inline]
    pub(crate) fn edges(&self, result: OpResult, mut emit: impl FnMut(Edge)) {
        match *self {
            Self::SetAction { signal } => emit(Edge::Release(SyncPoint::Object(signal))),
            Self::Send { .. } => emit(Edge::Wakes(None)),
            // Another thread has taken the signal.
            Self::Handle { .. } | Self::Wait { .. } if !result.succeeded() => {}
            Self::Handle { signal, waker } | Self::Wait { signal, waker } => {
                emit(Edge::Acquire(SyncPoint::Object(signal)));
                match waker {
                    Some(waker) => emit(Edge::Woken(waker)),
                    // The kernel's timers on processor time send signals too.
                    None => emit(Edge::Acquire(SyncPoint::Timers)),
                }
            }
            Self::SetTimer { .. } => emit(Edge::Release(SyncPoint::Timers)),
            Self::TimerFires { .. } => {
                emit(Edge::Acquire(SyncPoint::Timers));
                emit(Edge::Wakes(None));
            }
            Self::SetMask { .. } | Self::Pause => {}
        }
    }

    pub(crate) fn enabled(&self, machine: &Machine) -> Enabled {
        match *self {
            Self::Handle { waker: Some(sender), .. } | Self::Wait { waker: Some(sender), .. } => {
                if sender < machine.events() { Enabled::Yes } else { Enabled::No { by: Blocker::NotSent } }
            }
            Self::Handle { .. } | Self::Wait { .. } | Self::TimerFires { .. } => Enabled::IfTimePasses,
            Self::Pause => Enabled::Unknown,
            _ => Enabled::Yes,
        }
    }
}
