//! Compares the runtime's own model of synchronisation with the one that the analyses use, event by event: before each
//! event, both must agree on which threads could run. The state that the checker of predictions keeps, which is a third
//! model, must accept the same events. At the end, threads that are blocked by the runtime must be blocked by the machine.

use std::collections::BTreeMap;
use unsnarl_model::{EnabledThreads, Event, Op, OutcomeKind, ThreadIx, Trace};
use unsnarl_predict::CheckedState;
use unsnarl_semantics::{
    Contradiction, Enabled, LockMode, Machine, OpResult, Operation, RwLockOp, Step, ThreadOp,
};

/// The number of comparisons.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Compared {
    /// Threads for which both said the same.
    same: u64,
    /// Threads about which the events say nothing, by the reason.
    unknown: BTreeMap<Uncertainty, u64>,
}

/// The reasons why events may not show if an operation could be executed. There are no others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Uncertainty {
    /// The kernel or another process decides: an operation on a descriptor, a child or a signal.
    Environment,
    /// The operation was cancelled or interrupted, at any time.
    Abandoned,
    /// The operation failed: at once, or after it waited.
    Failed,
    /// The thread may take a signal that was sent to the process.
    ProcessSignal,
    /// A pending wake-up of a futex can be taken by several waiters.
    FutexWakeUp,
    /// The routine of a once control may end by an exception.
    OnceRoutine,
    /// The lock's holder has ended, or the lock's memory was freed.
    LockOfNobody,
    /// The initial count of a semaphore or barrier is not in the events.
    InitialCount,
    /// A reader may wait for a writer that has not got the lock yet, if the lock prefers writers: that is no event.
    PreferredWriter,
}

impl Uncertainty {
    /// Returns the reason for an operation that depends on more than events.
    fn of(step: &Step) -> Option<Self> {
        match (step.operation, step.result) {
            (Operation::Descriptor(_) | Operation::Signal(_), _) => Some(Self::Environment),
            (Operation::Thread(ThreadOp::Cancelled), _) => Some(Self::Abandoned),
            (_, OpResult::Cancelled | OpResult::Interrupted) => Some(Self::Abandoned),
            _ => None,
        }
    }

    /// Returns the reason for the answer [`Enabled::Unknown`] of the machine.
    fn of_machine(step: &Step) -> Option<Self> {
        match step.operation {
            Operation::Futex(_) => Some(Self::FutexWakeUp),
            Operation::Once(_) => Some(Self::OnceRoutine),
            _ if step.result == OpResult::Failed => Some(Self::Failed),
            Operation::Mutex(_) | Operation::RwLock(_) | Operation::Cond(_) => Some(Self::LockOfNobody),
            Operation::Semaphore(_) | Operation::Barrier(_) => Some(Self::InitialCount),
            _ => None,
        }
    }

    /// Returns how many percent of a program's answers may be unknown for this reason. A program that often waits for
    /// the environment, is cancelled or fails on purpose has no limit.
    const fn max_percent(self) -> u64 {
        match self {
            Self::Environment | Self::Abandoned | Self::Failed | Self::ProcessSignal => 100,
            Self::FutexWakeUp | Self::InitialCount => 2,
            Self::LockOfNobody => 4,
            Self::PreferredWriter => 15,
            Self::OnceRoutine => 15,
        }
    }
}

impl Compared {
    /// Adds the comparisons of another trace of the same program.
    pub(crate) fn add(&mut self, other: &Self) {
        self.same += other.same;
        for (&reason, count) in &other.unknown {
            *self.unknown.entry(reason).or_default() += count;
        }
    }

    /// Checks that no more answers were unknown than the reasons allow.
    pub(crate) fn check_unknown(&self) -> Result<(), String> {
        let all = self.same + self.unknown.values().sum::<u64>();
        match self.unknown.iter().find(|&(reason, count)| count * 100 > all * reason.max_percent()) {
            Some((reason, _)) => Err(format!("too many answers are unknown because of {reason:?}: {self:?}")),
            None => Ok(()),
        }
    }
}

/// Returns whether the running thread was the only choice because it is in an undivided region. `step` is its next one.
/// It must have been, unless it had to wait, yields or spins.
fn is_sole_runner(machine: &Machine, step: &Step, choices: EnabledThreads) -> Result<bool, String> {
    let bit = 1 << step.thread.index();
    if !step.undivided() {
        return Ok(false);
    }
    let is_alone = choices.can_run == bit && choices.yields == 0;
    let is_enabled = machine.enabled(step) == Enabled::Yes && Uncertainty::of(step).is_none();
    let must_be = is_enabled && choices.yields & bit == 0;
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

/// Returns the lock on which this step waits in this mode.
fn rwlock(step: &Step, mode: LockMode) -> Option<u64> {
    match step.operation {
        Operation::RwLock(RwLockOp::Lock { lock, mode: wanted, attempt: false }) if wanted == mode => {
            Some(lock)
        }
        _ => None,
    }
}

/// Returns whether a lock that prefers writers may block this reader: a writer's next operation is to take it.
fn may_wait_for_writer(step: &Step, pending: &[(usize, Step)]) -> bool {
    rwlock(step, LockMode::Shared).is_some_and(|lock| {
        pending
            .iter()
            .any(|(_, other)| other.thread != step.thread && rwlock(other, LockMode::Exclusive) == Some(lock))
    })
}

/// The comparison of the runtime's answer with the machine's.
enum Answer {
    Same,
    Different,
    Unknown(Uncertainty),
}

/// Compares what the runtime and the machine say about a thread's next operation.
fn answer(machine: &Machine, step: &Step, choices: EnabledThreads, takes_signals: bool) -> Answer {
    let bit = 1 << step.thread.index();
    let (runs, by_time) = (choices.can_run & bit != 0, choices.yields & bit != 0);
    if let Some(reason) = Uncertainty::of(step) {
        return Answer::Unknown(reason);
    }
    let is_same = match machine.enabled(step) {
        Enabled::Yes => runs,
        // The rule for time-outs may withhold it.
        Enabled::IfTimePasses => !runs || by_time || may_be_try(step),
        // Any thread may take a signal that was sent to the process.
        Enabled::No { .. } if runs && takes_signals => return Answer::Unknown(Uncertainty::ProcessSignal),
        Enabled::No { .. } => !runs,
        Enabled::Unknown => match Uncertainty::of_machine(step) {
            Some(reason) => return Answer::Unknown(reason),
            None => false,
        },
    };
    if is_same { Answer::Same } else { Answer::Different }
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
        let steps: Vec<(usize, Step)> = next.iter().take(64).filter_map(pending).collect();
        for &(number, step) in &steps {
            let answer = if sole_runner && step.thread != running {
                Answer::Same
            } else {
                answer(&machine, &step, choices, takes_signals)
            };
            let runs = choices.can_run & 1 << step.thread.index() != 0;
            let answer = match answer {
                Answer::Different if !runs && may_wait_for_writer(&step, &steps) => {
                    Answer::Unknown(Uncertainty::PreferredWriter)
                }
                answer => answer,
            };
            match answer {
                Answer::Same => compared.same += 1,
                Answer::Unknown(reason) => *compared.unknown.entry(reason).or_default() += 1,
                Answer::Different => {
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
