//! How a run ended.

use crate::{Op, Site, ThreadIx};
use alloc::{string::String, vec::Vec};

/// How a run ended, with what is needed to tell the user where and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// In which way.
    pub kind: OutcomeKind,
    /// Whose doing it was, where it was one thread's.
    pub thread: Option<ThreadIx>,
    /// Where in the user's own code: the innermost frame outside the system's libraries.
    pub site: Option<Site>,
    /// The program's last words: the failed assertion, the panic's message, `what()` …; or ours.
    pub message: String,
    /// Where threads were when it ended: the failing one's stack, or all of them in a deadlock.
    pub backtraces: Vec<Backtrace>,
    /// Who could not go on, and why.
    pub waits: Vec<Wait>,
}

/// In which way a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OutcomeKind {
    /// The program ended by itself with this status.
    Exit(i32),
    /// Nobody could go on, or some threads wait for each other in a circle.
    Deadlock,
    /// A signal of this number ended it.
    Signal(i32),
    /// A failed `assert`.
    Assertion,
    /// `abort`, not by a failed assertion.
    Abort,
    /// An uncaught C++ exception.
    Exception,
    /// A Rust panic that ended the program.
    Panic,
    /// Threads run but nobody gets anywhere.
    Livelock,
    /// A limit on time or events was reached.
    Timeout,
    /// Two unordered accesses, where that counts as a failure.
    Race,
    /// Wrong use of a synchronisation object, where that counts as a failure.
    Misuse,
    /// A check of the user's own failed.
    Check,
}

impl OutcomeKind {
    /// The name in the JSON output.
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
            Self::Timeout => "timeout",
            Self::Race => "race",
            Self::Misuse => "misuse",
            Self::Check => "check",
        }
    }
}

/// The name of a signal, like `SIGSEGV`.
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
    /// Whose.
    pub thread: ThreadIx,
    /// The first is where it was; the others are calls.
    pub frames: Vec<Site>,
}

/// A thread that cannot go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// Who waits.
    pub thread: ThreadIx,
    /// For what operation to become possible.
    pub op: Op,
    /// On what.
    pub addr: u64,
    /// From where.
    pub site: Site,
    /// Who would have to act: holders of the lock, the thread to be joined.
    pub holders: Vec<ThreadIx>,
}

/// Wrong use of a synchronisation object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Misuse {
    /// Unlock by a thread that does not hold the lock.
    UnlockNotHeld,
    /// Destruction of something that is locked or waited for.
    DestroyBusy,
    /// Use of something destroyed.
    UseDestroyed,
    /// A thread locks what it holds already, for ever.
    Relock,
    /// A thread that was neither joined nor detached when the program ended.
    LeakedThread,
    /// Join of a thread that is detached, joined already, or the caller itself.
    BadJoin,
    /// A wait on a condition variable without holding the mutex, or with different mutexes.
    WaitUnlocked,
    /// A lock held by a thread that ended.
    EndedHolding,
    /// The program did something that unsnarl does not control.
    NotModelled,
}

impl Misuse {
    /// All of them, in the order of their numbers.
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

    /// The one with this number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(number as usize).copied()
    }

    /// What happened, as the middle of a sentence.
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

/// Something wrong that did not end the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// What.
    pub misuse: Misuse,
    /// Whose doing.
    pub thread: ThreadIx,
    /// From where.
    pub site: Site,
    /// With what object.
    pub addr: u64,
    /// After how many events.
    pub at: u64,
    /// More about it; often empty.
    pub detail: String,
}

/// What makes two failures the same bug: not the thread's number, not addresses.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Signature {
    /// The kind's name; for exits and signals with the number.
    pub kind: OutcomeKind,
    /// The module's path and the offset in it.
    pub place: Option<(String, u64)>,
    /// The message.
    pub message: String,
}

impl Outcome {
    /// An ordinary end with this status.
    #[must_use]
    pub const fn exit(status: i32) -> Self {
        Self {
            kind: OutcomeKind::Exit(status),
            thread: None,
            site: None,
            message: String::new(),
            backtraces: Vec::new(),
            waits: Vec::new(),
        }
    }

    /// Whether something went wrong: everything but an exit with status 0.
    #[must_use]
    pub const fn is_failure(&self) -> bool {
        !matches!(self.kind, OutcomeKind::Exit(0))
    }
}
