//! Compares the runtime's own model of synchronisation with the one that the analyses use, event by event: before each
//! event, both must agree on which threads could run. The state that the checker of predictions keeps, which is a third
//! model, must accept the same events. At the end, threads that are blocked by the runtime must be blocked by the machine.

use unsnarl_model::{EnabledThreads, Event, Op, OutcomeKind, ThreadIx, Trace};
use unsnarl_predict::CheckedState;
use unsnarl_semantics::{Contradiction, Enabled, Machine, OpResult, Operation, Step, ThreadOp};

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

/// Returns whether the running thread was the only choice because it is in an undivided region. `step` is its next one.
/// It must have been, unless it had to wait, yields or spins.
fn is_sole_runner(machine: &Machine, step: &Step, choices: EnabledThreads) -> Result<bool, String> {
    let bit = 1 << step.thread.index();
    if !step.undivided() {
        return Ok(false);
    }
    let is_alone = choices.can_run == bit && choices.yields == 0;
    let must_be = machine.enabled(step) == Enabled::Yes && !is_unknown(step) && choices.yields & bit == 0;
    if must_be && !is_alone {
        return Err(format!("others than {:?} could run: {:#b}", step.thread, choices.can_run));
    }
    Ok(is_alone)
}

/// Returns whether the operation may be a try, which the runtime takes for ready. Joins have no operation for tries, and
/// one that succeeded does not show if it had a deadline.
fn may_be_try(step: &Step) -> bool {
    let is_join = matches!(step.operation, Operation::Thread(ThreadOp::Join { .. }));
    is_join && step.result != OpResult::TimedOut
}

/// Returns whether the runtime agrees with the machine about a thread's next operation; `None` if the events do not
/// show it.
fn agree(machine: &Machine, step: &Step, choices: EnabledThreads, takes_signals: bool) -> Option<bool> {
    let bit = 1 << step.thread.index();
    let (runs, by_time) = (choices.can_run & bit != 0, choices.yields & bit != 0);
    match machine.enabled(step) {
        _ if is_unknown(step) => None,
        Enabled::Yes => Some(runs),
        // The rule for time-outs may withhold it.
        Enabled::IfTimePasses => Some(!runs || by_time || may_be_try(step)),
        // Any thread may take a signal that was sent to the process.
        Enabled::No { .. } if runs && takes_signals => None,
        Enabled::No { .. } => Some(!runs),
        Enabled::Unknown => None,
    }
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
    let mut checked = Some(CheckedState::default());
    let mut running = ThreadIx::MAIN;
    for (at, (event, &choices)) in trace.events.iter().zip(choices).enumerate() {
        let context = |reason: String| format!("before event {at} ({event:?}), {reason}");
        let pending = |thread: &Vec<usize>| {
            let number = *thread.last()?;
            Some((number, machine.decode(&trace.events[number])))
        };
        let sole_runner = match pending(&next[running.index()]).filter(|_| running.index() < 64) {
            Some((_, step)) => is_sole_runner(&machine, &step, choices).map_err(context)?,
            None => false,
        };
        for (number, step) in next.iter().take(64).filter_map(pending) {
            let agree = if sole_runner && step.thread != running {
                Some(true)
            } else {
                agree(&machine, &step, choices, takes_signals)
            };
            match agree {
                Some(true) => compared.same += 1,
                None => compared.unknown += 1,
                Some(false) => {
                    let runs = choices.can_run & 1 << step.thread.index() != 0;
                    return Err(context(format!(
                        "thread {} {}: {:?} for event {number} ({:?})",
                        trace.thread_id(step.thread),
                        if runs { "could run" } else { "could not run" },
                        machine.enabled(&step),
                        step.operation,
                    )));
                }
            }
        }
        running = event.thread;
        next[event.thread.index()].pop();
        let is_misuse = executed(&mut machine, event)?;
        // After a misuse the checker's state means nothing: it is never asked about such a trace.
        if let Some(refused) = checked.as_mut().map(|checked| checked.step(event)) {
            if refused.is_err() != is_misuse {
                return Err(format!(
                    "event {at} ({event:?}): misuse {is_misuse}, by the checker {refused:?}"
                ));
            }
            checked = checked.filter(|_| !is_misuse);
        }
    }
    if trace.outcome.kind == OutcomeKind::Deadlock {
        // A reader may also wait for a writer that waits, if the lock prefers writers: that is no event.
        let mut waits = trace.outcome.waits.iter().filter(|wait| wait.op != Op::ReadLock);
        let free = waits.find(|wait| machine.enabled_wait(wait) == Enabled::Yes);
        if let Some(wait) = free {
            return Err(format!("{wait:?} is a deadlock, but the thread could continue"));
        }
    }
    Ok(compared)
}

/// Executes an event, which must be possible; returns whether it misuses a lock.
fn executed(machine: &mut Machine, event: &Event) -> Result<bool, String> {
    let step = machine.decode(event);
    if let Enabled::No { by } = machine.enabled_with_result(&step) {
        return Err(format!(
            "event {} {:?} happened although blocked by {by:?}",
            step.number, step.operation
        ));
    }
    match machine.apply(&step) {
        Ok(()) => Ok(false),
        Err(Contradiction::NotHeld(_) | Contradiction::WaitWithoutLock(_)) => Ok(true),
        Err(reason) => Err(format!("event {} {:?}: {reason:?}", step.number, step.operation)),
    }
}
