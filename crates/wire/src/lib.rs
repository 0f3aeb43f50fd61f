//! The shared memory between the controller and the runtime inside the target.
//!
//! The controller writes a [`Plan`](unsnarl_model::Plan) into it and starts the target; the runtime
//! writes what happens. Nothing else passes between them while the target runs, and because the
//! memory belongs to the controller too, nothing is lost however the target dies.
//!
//! Everything is `repr(C)` at fixed places: one memory file, mapped by both sides.
//!
//! ```text
//! Header | threads | modules | warnings | conflicts | stacks | events … | choices …
//!        | plan: threads, modules, segments, actions, spans
//! ```

#![no_std]
#![forbid(unsafe_code)]

mod event;
mod header;
mod plan;
mod steps;

pub use event::RawEvent;
pub use header::{
    CALLS_BYTES, Choices, End, EndKind, Header, INPUT_BYTES, MAX_CONFLICTS, MAX_MESSAGE, MAX_MODULES,
    MAX_PATH, MAX_THREADS, MAX_WARNINGS, ONE_STACK_BYTES, RawConflict, RawInput, RawModule, RawStack,
    RawThread, RawWarning, Regions,
};
pub use plan::{PlanThread, PlanWords, RawAction, RawSegment, RawSpan, SideRequest};
pub use steps::{
    CHUNK_WORDS, ENTER_WORDS, LEAVE_WORDS, OVERLAP_WORDS, RING_WORDS, SIGNAL_WORDS, StepKind, StepWord,
    TRACE_FULL, TracerWords, Tracing,
};

/// Bump this whenever anything in this crate changes: the other side refuses what it does not know.
pub const VERSION: u32 = 17;

/// The first word of the memory.
pub const MAGIC: u64 = u64::from_le_bytes(*b"unsnarl\x01");

/// The environment variable that tells the runtime the memory's file descriptor. Without it the
/// runtime stays passive: it lets the program run as if it were not there.
pub const WIRE_VARIABLE: &str = "UNSNARL_WIRE";

/// The environment variable by which programs that a launcher starts know where to ask whether they are the one to be controlled: an
/// abstract socket. They write their process id, four bytes, and are answered by a byte, a [`FollowAnswer`].
pub const FOLLOW_VARIABLE: &str = "UNSNARL_FOLLOW";

/// What becomes of a program that a launcher started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum FollowAnswer {
    /// It runs as it would without unsnarl.
    Run = b'r',
    /// It is the one: it waits, and ends when the connection does.
    Wait = b'w',
}

/// What else the controller adds to the environment: OpenMP's threads shall wait at once, not spin for a while first,
/// for nobody else runs meanwhile. The runtime removes it before main.
pub const SPIN_COUNT: &str = "GOMP_SPINCOUNT=0";

/// Has the loader bind all functions before the program starts and, later, whenever it opens a library. The loader accepts any
/// value; this one shows the runtime that the entry is not the user's, so that it is removed before main.
pub const BIND_NOW: &str = "LD_BIND_NOW=unsnarl";

/// The soft limit on the stack with which the controller starts a program whose stack is unlimited, in bytes. The kernel would choose
/// another layout of the address space otherwise, bottom up from the middle, where the race detector does not watch. The runtime knows
/// it by this very value and takes it away before main.
pub const UNLIMITED_STACK: u64 = 64 << 30;

/// The file descriptor at which the target finds the memory. Fixed, so that the environment, and
/// with it the layout of the stack, is the same in every run.
pub const DESCRIPTOR: i32 = 198;

/// The file descriptor at which a target that serves runs talks with the controller.
///
/// The controller writes one byte, a [`Request`]. For a run the target, which waits for it before main, forks, and
/// answers when that process is gone: with its process id, its status and 0, four bytes each. A process that is to be rewound after its run
/// answers itself, with 1 at the end, and takes the next such request, if it could be rewound; for others it makes way. For a snapshot the target answers with
/// the process id and no more.
pub const SERVICE: i32 = 199;

/// The file descriptors at which snapshots talk with the controller: number 1 at the first of them, and so on.
///
/// A snapshot is a run that got to the end of its plan and waits there: it writes a number that is not 0 when it is
/// ready, and from then on serves runs, and further snapshots, as the target does before main. If it cannot wait
/// there it writes 0, and the reason is the message of the end.
pub const SNAPSHOTS: [i32; 3] = [200, 201, 202];

/// How much more memory a snapshot maps than it needs: for plans that are longer than its own.
pub const PLAN_RESERVE: u64 = 1 << 30;

/// What the controller asks of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// To end.
    End,
    /// A run.
    Run,
    /// A run whose process, if it can, comes back to where it began, for the next one.
    Rewind,
    /// A run that becomes the snapshot of this number.
    Snapshot(u8),
}

impl Request {
    /// As it is written.
    #[must_use]
    pub const fn byte(self) -> u8 {
        match self {
            Self::End => 0,
            Self::Run => 1,
            Self::Rewind => 2,
            Self::Snapshot(number) => 2 + number,
        }
    }

    /// What was written.
    #[must_use]
    pub const fn from_byte(byte: u8) -> Self {
        match byte {
            0 => Self::End,
            1 => Self::Run,
            2 => Self::Rewind,
            snapshot => Self::Snapshot(snapshot - 2),
        }
    }
}

/// The signal by which the controller asks a target whose time is up where it is: one that the C library keeps for itself, to cancel threads,
/// which is ours to do. Programs can neither block nor handle it.
pub const TIMEOUT_SIGNAL: i32 = 32;

/// The signal by which the controller has a target that comes to no schedule point look whether it waits in a loop: the other one that the C
/// library keeps for itself, to change the user of all kernel threads, of which there is one.
pub const SPIN_CHECK_SIGNAL: i32 = 33;

/// The message of an end by the time limit where nothing but something from outside could have let the program go on.
pub const WAITED_OUTSIDE: &str = "outside";

/// The runtime's name as a library.
pub const RUNTIME_LIBRARY: &str = "libunsnarl_rt.so";
