//! Outcomes: how a run ended.

use crate::{Op, Site, ThreadIx};
use alloc::{string::String, vec::Vec};

/// The end of a run, with everything needed to explain where and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The kind of outcome.
    pub kind: OutcomeKind,
    /// The thread that caused it, if it was one thread.
    pub thread: Option<ThreadIx>,
    /// The site in user code: the innermost frame outside the system's libraries.
    pub site: Option<Site>,
    /// The program's last message (the failed assertion, the panic message, `what()` …), or our own.
    pub message: String,
    /// Stacks at the end: of the failing thread, or of all threads in a deadlock.
    pub backtraces: Vec<Backtrace>,
    /// The blocked threads, and what they wait for.
    pub waits: Vec<Wait>,
    /// The place of the failure in terms that other builds of the program share: functions, lines counted from
    /// where a function begins, names of variables. Empty if it is not known.
    pub place: String,
    /// True if the user's predicate says that this failure is not the one that is looked for. Not kept in files.
    pub excluded: bool,
}

/// The ways in which a run can end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OutcomeKind {
    /// The program exited with this status.
    Exit(i32),
    /// No thread could continue, or some threads wait for each other in a cycle.
    Deadlock,
    /// A signal with this number killed the program.
    Signal(i32),
    /// A failed `assert`.
    Assertion,
    /// `abort` without a failed assertion.
    Abort,
    /// An uncaught C++ exception.
    Exception,
    /// A Rust panic that terminated the program.
    Panic,
    /// Threads run without making progress.
    Livelock,
    /// The run was stopped before it ended, so it decides nothing: neither that the program fails nor that it
    /// does not.
    Undecided(Limit),
    /// A data race, if races count as failures.
    Race,
    /// Misuse of a synchronisation object, if misuse counts as a failure.
    Misuse,
    /// A user-defined check failed.
    Check,
}

impl OutcomeKind {
    /// Returns the name in the JSON output.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Exit(_) => "exit",
            Self::Deadlock => "deadlock",
            Self::Signal(_) => "signal",
            Self::Assertion => "assertion",
            Self::Abort => "abort",
            Self::Exception => "exception",
            Self::Panic => "panic",
            Self::Livelock => "livelock",
            Self::Undecided(_) => "undecided",
            Self::Race => "race",
            Self::Misuse => "misuse",
            Self::Check => "check",
        }
    }
}

/// The limit that stopped a run before it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Limit {
    /// Real time.
    Time,
    /// The number of events.
    Events,
    /// Memory.
    Memory,
    /// Output.
    Output,
    /// The end of the plan, which does not cover what follows.
    Plan,
}

impl Limit {
    /// All variants, in the order of their numbers.
    pub const ALL: &'static [Self] = &[Self::Time, Self::Events, Self::Memory, Self::Output, Self::Plan];

    /// Returns the variant with this number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(number as usize).copied()
    }

    /// Returns the name in the JSON output.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Time => "time",
            Self::Events => "events",
            Self::Memory => "memory",
            Self::Output => "output",
            Self::Plan => "plan",
        }
    }
}

/// Returns the name of a signal, like `SIGSEGV`.
#[must_use]
pub const fn signal_name(signal: i32) -> &'static str {
    match signal {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        4 => "SIGILL",
        5 => "SIGTRAP",
        6 => "SIGABRT",
        7 => "SIGBUS",
        8 => "SIGFPE",
        9 => "SIGKILL",
        10 => "SIGUSR1",
        11 => "SIGSEGV",
        12 => "SIGUSR2",
        13 => "SIGPIPE",
        14 => "SIGALRM",
        15 => "SIGTERM",
        16 => "SIGSTKFLT",
        17 => "SIGCHLD",
        18 => "SIGCONT",
        19 => "SIGSTOP",
        20 => "SIGTSTP",
        23 => "SIGURG",
        24 => "SIGXCPU",
        25 => "SIGXFSZ",
        26 => "SIGVTALRM",
        27 => "SIGPROF",
        28 => "SIGWINCH",
        29 => "SIGIO",
        31 => "SIGSYS",
        _ => "a real-time or unusual signal",
    }
}

/// A thread's stack, innermost frame first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backtrace {
    /// The thread.
    pub thread: ThreadIx,
    /// The first is the current position; the others are call sites.
    pub frames: Vec<Site>,
}

/// A thread that cannot continue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The waiting thread.
    pub thread: ThreadIx,
    /// The operation that it waits to execute.
    pub op: Op,
    /// The address of the object.
    pub addr: u64,
    /// The site of the operation.
    pub site: Site,
    /// The threads that could end the wait: holders of the lock, the thread to be joined.
    pub holders: Vec<ThreadIx>,
}

/// Misuse of a synchronisation object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Misuse {
    /// Unlock by a thread that does not hold the lock.
    UnlockNotHeld,
    /// Destruction of an object that is locked or waited for.
    DestroyBusy,
    /// Use of a destroyed object.
    UseDestroyed,
    /// A thread locks a lock that it already holds, and so blocks for ever.
    Relock,
    /// A thread that was neither joined nor detached when the program ended.
    LeakedThread,
    /// Join of a thread that is detached, joined already, or the caller itself.
    BadJoin,
    /// A wait on a condition variable without holding the mutex, or with different mutexes.
    WaitUnlocked,
    /// A lock held by a thread that ended.
    EndedHolding,
    /// The program did something outside unsnarl's control.
    NotModelled,
}

impl Misuse {
    /// All variants, in the order of their numbers.
    pub const ALL: &'static [Self] = &[
        Self::UnlockNotHeld,
        Self::DestroyBusy,
        Self::UseDestroyed,
        Self::Relock,
        Self::LeakedThread,
        Self::BadJoin,
        Self::WaitUnlocked,
        Self::EndedHolding,
        Self::NotModelled,
    ];

    /// Returns the variant with this number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(number as usize).copied()
    }

    /// Returns whether the program is at fault, so that it can count as a failure.
    #[must_use]
    pub const fn is_program_error(self) -> bool {
        !matches!(self, Self::NotModelled)
    }

    /// Returns a description that fits in the middle of a sentence.
    #[must_use]
    pub const fn description(self) -> &'static str {
        match self {
            Self::UnlockNotHeld => "unlocks a lock that it does not hold",
            Self::DestroyBusy => "destroys an object that is in use",
            Self::UseDestroyed => "uses an object that was destroyed",
            Self::Relock => "locks a mutex that it holds already",
            Self::LeakedThread => "was neither joined nor detached when the program ended",
            Self::BadJoin => "joins a thread that cannot be joined",
            Self::WaitUnlocked => "waits on a condition without holding its mutex",
            Self::EndedHolding => "ends while holding a lock",
            Self::NotModelled => "does something that is not controlled",
        }
    }
}

/// A problem that did not end the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// The kind of misuse.
    pub misuse: Misuse,
    /// The thread at fault.
    pub thread: ThreadIx,
    /// The site of the operation.
    pub site: Site,
    /// The address of the object.
    pub addr: u64,
    /// The number of events before it.
    pub at: u64,
    /// Further details; often empty.
    pub detail: String,
}

impl Default for Outcome {
    fn default() -> Self {
        Self::exit(0)
    }
}

impl Outcome {
    /// Builds the outcome of an ordinary exit with this status.
    #[must_use]
    pub const fn exit(status: i32) -> Self {
        Self {
            kind: OutcomeKind::Exit(status),
            thread: None,
            site: None,
            message: String::new(),
            backtraces: Vec::new(),
            waits: Vec::new(),
            place: String::new(),
            excluded: false,
        }
    }

    /// Returns whether the run failed: anything but an exit with status 0, if it was not stopped before its end.
    #[must_use]
    pub const fn is_failure(&self) -> bool {
        !matches!(self.kind, OutcomeKind::Exit(0) | OutcomeKind::Undecided(_))
    }

    /// Returns the limit at which the run was stopped, if it was.
    #[must_use]
    pub const fn limit(&self) -> Option<Limit> {
        match self.kind {
            OutcomeKind::Undecided(limit) => Some(limit),
            _ => None,
        }
    }
}
