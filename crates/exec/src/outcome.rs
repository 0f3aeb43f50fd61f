//! Determines how a run ended, from the runtime's record, the process's exit status and the program's stderr.

use crate::{
    collect::{ModuleFiles, SiteTable, message},
    memory::SharedMemory,
    monitor::{LimitReached, TimeoutActivity},
    stderr_tail,
};
use std::{collections::BTreeSet, os::unix::process::ExitStatusExt, process::ExitStatus};
use unsnarl_model::{
    Backtrace, Event, Limit, Module, Op, Outcome, OutcomeKind, Output, Site, Thread, ThreadIx, Wait,
};
use unsnarl_semantics::Machine;
use unsnarl_symbols::{Registers, StackCopy, Symbols, Unwinder};
use unsnarl_wire::{End, EndKind, RUNTIME_LIBRARY, RawEvent, RawStack, WAITED_OUTSIDE};

/// Frames kept per stack.
const MAX_FRAMES: usize = 64;

pub(crate) fn outcome(
    memory: &SharedMemory,
    files: &mut ModuleFiles,
    modules: &[Module],
    places: &SiteTable,
    (status, stopped): (ExitStatus, Option<LimitReached>),
    output: &Output,
    (threads, events): (&[Thread], &[Event]),
) -> Outcome {
    let header = memory.header();
    let end = &header.end;
    let panicked = header.panicked.load(std::sync::atomic::Ordering::Acquire).checked_sub(1);
    let aborted = end.signal == libc::SIGABRT;
    let round = round_threads(end, events);
    let ended = || match end.kind {
        EndKind::Deadlock => (OutcomeKind::Deadlock, message(end)),
        EndKind::Livelock if message(end).is_empty() => {
            (OutcomeKind::Livelock, round_message(threads, &round))
        }
        EndKind::Livelock => (OutcomeKind::Livelock, message(end)),
        EndKind::Assertion => (OutcomeKind::Assertion, message(end)),
        EndKind::Signal if aborted => match (panicked, stderr_tail::exception(output)) {
            (Some(_), _) => (OutcomeKind::Panic, stderr_tail::panic(output)),
            (None, Some(exception)) => (OutcomeKind::Exception, exception),
            (None, None) if message(end).is_empty() => (OutcomeKind::Abort, stderr_tail::terminate(output)),
            (None, None) => (OutcomeKind::Abort, message(end)),
        },
        EndKind::Signal => (OutcomeKind::Signal(end.signal), stderr_tail::fault(end)),
        EndKind::Unknown
        | EndKind::Exit
        | EndKind::Timeout
        | EndKind::Full
        | EndKind::PlanEnd
        | EndKind::Diverged
        | EndKind::Refused
        | EndKind::Internal
        | EndKind::NeedsLazyBinding
        | EndKind::ChangesFiles => match status.code() {
            Some(101) if panicked.is_some() => (OutcomeKind::Panic, stderr_tail::panic(output)),
            Some(0) => (OutcomeKind::Exit(0), String::new()),
            Some(code) => (OutcomeKind::Exit(code), stderr_tail::test(output)),
            None => (OutcomeKind::Signal(status.signal().unwrap_or(0)), String::new()),
        },
    };
    let (kind, words) = undecided(memory, status, stopped).unwrap_or_else(ended);
    let mut outcome = Outcome { message: words, ..Outcome::exit(0) };
    outcome.kind = kind;
    if matches!(kind, OutcomeKind::Exit(_)) {
        return outcome;
    }
    let ModuleFiles { symbols, unwinder, .. } = files;
    let stacks = memory.stacks();
    // A panic's stack was copied when the panic began; the program may have ended elsewhere.
    let relevant = match kind {
        OutcomeKind::Panic => &stacks[..stacks.len().min(1)],
        _ => &stacks[usize::from(panicked.is_some() && stacks.len() > 1)..],
    };
    outcome.backtraces = relevant.iter().map(|stack| program_backtrace(unwinder, modules, stack)).collect();
    if kind == OutcomeKind::Livelock && !round.is_empty() {
        outcome.thread = events.last().map(|event| event.thread);
        outcome.site = round_site(symbols, modules, places, last_round(end, memory.events()));
    } else if kind != OutcomeKind::Deadlock {
        // If the runtime did not see the death, the thread that ran last is taken.
        let unseen = matches!(end.kind, EndKind::Unknown).then(|| events.last().map(|e| e.thread)).flatten();
        let thread = panicked.filter(|_| kind == OutcomeKind::Panic).unwrap_or(end.thread);
        outcome.thread = unseen.or(Some(ThreadIx(thread as u16)));
        outcome.site = outcome.backtraces.first().and_then(|b| symbols.user_frame(modules, &b.frames));
        if outcome.limit().is_some() {
            outcome.waits = waits(memory, places, events);
        }
    } else {
        outcome.waits = waits(memory, places, events);
        // Every wait of a cycle is an equally good site. The first one by position in the code does not depend on which
        // thread of the cycle came last.
        let mut sites: Vec<Site> = outcome
            .backtraces
            .iter()
            .filter(|b| outcome.waits.iter().any(|w| w.thread == b.thread && w.op != Op::Join))
            .filter_map(|b| symbols.user_frame(modules, &b.frames))
            .collect();
        sites.sort();
        outcome.site = sites.first().copied().or_else(|| outcome.waits.first().map(|w| w.site));
    }
    outcome
}

/// Returns the outcome of a run that was stopped before it ended.
pub(crate) fn undecided(
    memory: &SharedMemory,
    status: ExitStatus,
    stopped: Option<LimitReached>,
) -> Option<(OutcomeKind, String)> {
    let header = memory.header();
    Some(match header.end.kind {
        EndKind::Timeout => stopped_at(stopped, message(&header.end) == WAITED_OUTSIDE),
        // The process was killed, because it did not answer when it was stopped.
        EndKind::Unknown if stopped.is_some() && status.signal() == Some(libc::SIGKILL) => {
            stopped_at(stopped, false)
        }
        EndKind::Full => (
            OutcomeKind::Undecided(Limit::Events),
            format!("the limit of {} events was reached (--max-events raises it)", header.plan.max_events),
        ),
        EndKind::PlanEnd => {
            (OutcomeKind::Undecided(Limit::Plan), "the plan ended before the program did".into())
        }
        EndKind::Diverged => {
            let text = "the program left the planned schedule, because of something that is not controlled";
            (OutcomeKind::Undecided(Limit::Plan), text.into())
        }
        _ => return None,
    })
}

/// Returns the events of a repeated round, which ended the run.
fn last_round<'a, T>(end: &End, events: &'a [T]) -> &'a [T] {
    let length = usize::try_from(end.round).unwrap_or(usize::MAX).min(events.len());
    &events[events.len() - length..]
}

/// Returns the threads of a repeated round, in the order of their creation.
fn round_threads(end: &End, events: &[Event]) -> Vec<ThreadIx> {
    let threads: BTreeSet<ThreadIx> = last_round(end, events).iter().map(|event| event.thread).collect();
    threads.into_iter().collect()
}

fn round_message(threads: &[Thread], round: &[ThreadIx]) -> String {
    let name = |thread: &ThreadIx| threads.get(thread.index()).map_or_else(String::new, |t| t.id.to_string());
    let names: Vec<String> = round.iter().map(name).collect();
    match names.as_slice() {
        [one] => format!("thread {one} repeats the same operations for ever, and nothing else changes"),
        [others @ .., last] => {
            let others = others.join(", ");
            format!(
                "threads {others} and {last} repeat the same operations for ever, and nothing else changes"
            )
        }
        [] => String::new(),
    }
}

/// Returns the first place of a repeated round by position in the code: where the threads were when it was recognised
/// is arbitrary.
fn round_site(
    symbols: &mut Symbols,
    modules: &[Module],
    places: &SiteTable,
    round: &[RawEvent],
) -> Option<Site> {
    let pcs: BTreeSet<u64> = round.iter().map(RawEvent::pc).collect();
    let sites = pcs.into_iter().map(|pc| places.caller(pc));
    sites.filter_map(|site| symbols.user_frame(modules, &[site])).min()
}

/// Returns the outcome of a run that was stopped at a limit, with the option that raises it.
fn stopped_at(stopped: Option<LimitReached>, waited_outside: bool) -> (OutcomeKind, String) {
    let (limit, words) = match stopped {
        Some(LimitReached::Output) => {
            (Limit::Output, "the limit on output was reached (--max-output raises it)")
        }
        Some(LimitReached::Memory) => {
            (Limit::Memory, "the limit on memory was reached (--max-memory raises it)")
        }
        _ if waited_outside => (
            Limit::Time,
            "the time limit was reached (--timeout raises it) while it waited for something from outside",
        ),
        _ => (Limit::Time, time_limit(stopped)),
    };
    (OutcomeKind::Undecided(limit), words.into())
}

/// Returns the message for a run that reached the time limit.
const fn time_limit(stopped: Option<LimitReached>) -> &'static str {
    match stopped {
        Some(LimitReached::Time(TimeoutActivity::Running)) => {
            "the time limit was reached (--timeout raises it), long after the last schedule point: if the thread waits \
             there for a variable, it spins without a schedule point; compile that code with unsnarl cc"
        }
        Some(LimitReached::Time(TimeoutActivity::Waiting)) => {
            "the time limit was reached (--timeout raises it), long after the last schedule point: the thread waits in the \
             kernel for something that is not modelled, and no other thread can run until then"
        }
        _ => "the time limit was reached (--timeout raises it)",
    }
}

/// Returns a thread's stack without the runtime's own frames, unless there are no others.
fn program_backtrace(unwinder: &mut Unwinder, modules: &[Module], stack: &(RawStack, &[u8])) -> Backtrace {
    let mut backtrace = backtrace(unwinder, modules, stack);
    let is_own = |site: &Site| modules[usize::from(site.module.0)].path.ends_with(RUNTIME_LIBRARY);
    if !backtrace.frames.iter().all(is_own) {
        backtrace.frames.retain(|site| !is_own(site));
    }
    backtrace
}

pub(crate) fn backtrace(
    unwinder: &mut Unwinder,
    modules: &[Module],
    (stack, bytes): &(RawStack, &[u8]),
) -> Backtrace {
    let [rip, rsp, rbp, rbx, r12, r13, r14, r15] = stack.registers;
    let registers = Registers { rip, rsp, rbp, rbx, r12, r13, r14, r15 };
    let copy = StackCopy { base: stack.base, bytes: bytes.to_vec() };
    let frames = unwinder.backtrace(modules, &registers, &copy, MAX_FRAMES);
    Backtrace { thread: ThreadIx(stack.thread as u16), frames }
}

/// Returns the blocked threads, the objects they wait for, and the holders of these objects.
fn waits(memory: &SharedMemory, places: &SiteTable, events: &[Event]) -> Vec<Wait> {
    let machine = Machine::after(events);
    memory
        .threads()
        .iter()
        .enumerate()
        .filter(|(_, row)| row.blocked != 0)
        .filter_map(|(ix, row)| {
            let mut holders: Vec<ThreadIx> =
                machine.holders(row.addr).iter().map(|hold| hold.thread).collect();
            if holders.is_empty() && row.holder != u64::MAX {
                holders.push(ThreadIx(row.holder as u16));
            }
            Some(Wait {
                thread: ThreadIx(ix as u16),
                op: Op::from_number(row.op as u8)?,
                addr: row.addr,
                site: places.caller(row.pc),
                holders,
            })
        })
        .collect()
}
