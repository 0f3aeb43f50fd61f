//! Operations on signals and timers as text: `send SIGUSR1 to 0.2`.

use super::{seconds, thread, woken_by};
use unsnarl_model::{Trace, signal_name};
use unsnarl_semantics::{OpResult, SignalOp};

/// Describes an operation.
pub(super) fn operation(trace: &Trace, op: &SignalOp, result: OpResult) -> String {
    let since_start = |time: u64| seconds(time.saturating_sub(trace.plan.epoch));
    let failed = matches!(result, OpResult::Failed | OpResult::Interrupted);
    match *op {
        SignalOp::SetAction { signal } => format!("set the action of {}", named(signal)),
        SignalOp::SetMask { mask } => format!("block {}", blocked(mask)),
        SignalOp::Send { signal, .. } if failed => format!("send {}: it is ignored", named(signal)),
        SignalOp::Send { signal, thread: None } => format!("send {} to the process", named(signal)),
        SignalOp::Send { signal, thread: Some(receiver) } => {
            format!("send {} to {}", named(signal), thread(trace, receiver))
        }
        SignalOp::Handle { .. } if failed => "another thread has handled the signal".to_owned(),
        SignalOp::Handle { signal, waker } => format!("handle {}{}", named(signal), woken_by(trace, waker)),
        SignalOp::Wait { signal, waker } => match result {
            OpResult::Cancelled => "wait for a signal: cancelled".to_owned(),
            OpResult::Interrupted => "wait for a signal: interrupted by another one".to_owned(),
            OpResult::TimedOut => "wait for a signal: timed out".to_owned(),
            OpResult::Failed => "check for a signal: none".to_owned(),
            OpResult::Done | OpResult::Spurious => {
                format!("wait for {}{}", named(signal), woken_by(trace, waker))
            }
        },
        SignalOp::Pause if result == OpResult::Cancelled => "wait for a signal: cancelled".to_owned(),
        SignalOp::Pause => "continue after a signal".to_owned(),
        SignalOp::SetTimer { .. } if failed => "set a timer: error".to_owned(),
        SignalOp::SetTimer { expiry: None } => "stop a timer".to_owned(),
        SignalOp::SetTimer { expiry: Some(time) } => format!("set a timer to {}", since_start(time)),
        SignalOp::TimerFires { signal: 0, time } => format!("the timer fires at {}", since_start(time)),
        SignalOp::TimerFires { signal, time } => {
            format!("the timer fires at {}: {}", since_start(time), named(signal))
        }
    }
}

fn named(signal: u64) -> String {
    match i32::try_from(signal).map_or("", signal_name) {
        name if name.starts_with("SIG") => name.to_owned(),
        _ => format!("signal {signal}"),
    }
}

/// Returns the names of the signals in a mask.
fn blocked(mask: u64) -> String {
    let count = mask.count_ones();
    match count {
        0 => "no signals".to_owned(),
        1..=4 => {
            let signals = (1..=64).filter(|signal| mask >> (signal - 1) & 1 != 0);
            signals.map(named).collect::<Vec<_>>().join(", ")
        }
        _ => format!("{count} signals"),
    }
}
