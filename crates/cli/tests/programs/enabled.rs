//! Compares the runtime's own model of synchronisation with the one that the analyses use, event by event: before each
//! event, both must agree on which threads could run.

use unsnarl_model::{EnabledThreads, Event, Op, Trace};
use unsnarl_semantics::{Contradiction, Enabled, Machine, OpResult, Operation, Step};

/// The number of comparisons.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Compared {
    /// Threads for which both said the same.
    pub(crate) same: u64,
    /// Threads about which events say nothing: see [`is_unknown`].
    pub(crate) unknown: u64,
}

/// Returns whether events do not show if this operation could be executed: it depends on descriptors, children or
/// signals, which the kernel or another process decides about, or on a cancellation.
fn is_unknown(step: &Step) -> bool {
    matches!(step.operation, Operation::Descriptor(_) | Operation::Signal(_))
        || matches!(step.result, OpResult::Cancelled | OpResult::Interrupted)
}

/// Compares the threads that could run by the runtime with those that could run by the events.
pub(crate) fn compare(trace: &Trace, choices: &[EnabledThreads]) -> Result<Compared, String> {
    let mut compared = Compared::default();
    let mut next: Vec<Vec<usize>> = vec![Vec::new(); trace.threads.len()];
    for (number, event) in trace.events.iter().enumerate().rev() {
        next[event.thread.index()].push(number);
    }
    let takes_signals = trace.events.iter().any(|event| matches!(event.op, Op::SigHandle | Op::SigWait));
    let mut machine = Machine::before(&trace.events);
    for (at, (event, choices)) in trace.events.iter().zip(choices).enumerate() {
        for thread in next.iter().take(64) {
            let Some(&pending) = thread.last() else { continue };
            let step = machine.decode(&trace.events[pending]);
            let bit = 1 << step.thread.index();
            let (runs, by_time) = (choices.can_run & bit != 0, choices.yields & bit != 0);
            let agree = match machine.enabled(&step) {
                _ if is_unknown(&step) => None,
                Enabled::Yes => Some(runs),
                Enabled::IfTimePasses => Some(runs && by_time),
                // Any thread may take a signal that was sent to the process.
                Enabled::No { .. } if runs && takes_signals => None,
                // It might have timed out instead.
                Enabled::No { .. } => Some(!runs || by_time),
                Enabled::Unknown => None,
            };
            match agree {
                Some(true) => compared.same += 1,
                None => compared.unknown += 1,
                Some(false) => {
                    return Err(format!(
                        "before event {at} ({event:?}), thread {} {}: {:?} for event {pending} ({:?})",
                        trace.thread_id(step.thread),
                        if runs { "could run" } else { "could not run" },
                        machine.enabled(&step),
                        step.operation,
                    ));
                }
            }
        }
        next[event.thread.index()].pop();
        executed(&mut machine, event)?;
    }
    Ok(compared)
}

/// Executes an event, which must be possible.
fn executed(machine: &mut Machine, event: &Event) -> Result<(), String> {
    let step = machine.decode(event);
    if let Enabled::No { by } = machine.enabled(&step) {
        return Err(format!(
            "event {} {:?} happened although blocked by {by:?}",
            step.number, step.operation
        ));
    }
    match machine.apply(&step) {
        // Programs may misuse locks.
        Ok(()) | Err(Contradiction::NotHeld(_) | Contradiction::WaitWithoutLock(_)) => Ok(()),
        Err(reason) => Err(format!("event {} {:?}: {reason:?}", step.number, step.operation)),
    }
}
