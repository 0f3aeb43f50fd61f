//! Operations on signals and timers as text: `send SIGUSR1 to 0.2`.

use super::{seconds, thread, woken_by};
use unsnarl_model::{Event, Flags, Op, Trace, signal_name};

/// Describes an event.
pub(super) fn event(trace: &Trace, event: &Event) -> String {
    let signal = || named(event.addr);
    let value = event.value;
    let failed = event.flags.has(Flags::FAILED);
    let since_start = || seconds(value.saturating_sub(trace.plan.epoch));
    match event.op {
        Op::SigAction => format!("set the action of {}", signal()),
        Op::SigMask => format!("block {}", blocked(value)),
        Op::SigSend if failed => format!("send {}: it is ignored", signal()),
        Op::SigSend if value == u64::MAX => format!("send {} to the process", signal()),
        Op::SigSend => format!("send {} to {}", signal(), thread(trace, value)),
        Op::SigHandle if failed => "another thread has handled the signal".to_owned(),
        Op::SigHandle => format!("handle {}{}", signal(), woken_by(trace, event)),
        _ if event.flags.has(Flags::CANCELLED) => "wait for a signal: cancelled".to_owned(),
        Op::SigWait if event.flags.has(Flags::INTERRUPTED) => {
            "wait for a signal: interrupted by another one".to_owned()
        }
        Op::SigWait if event.flags.has(Flags::TIMED_OUT) => "wait for a signal: timed out".to_owned(),
        Op::SigWait if failed => "check for a signal: none".to_owned(),
        Op::SigWait => format!("wait for {}{}", signal(), woken_by(trace, event)),
        Op::SigPause => "continue after a signal".to_owned(),
        Op::TimerSet if failed => "set a timer: error".to_owned(),
        Op::TimerSet if value == 0 => "stop a timer".to_owned(),
        Op::TimerSet => format!("set a timer to {}", since_start()),
        _ if event.addr == 0 => format!("the timer fires at {}", since_start()),
        _ => format!("the timer fires at {}: {}", since_start(), signal()),
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
