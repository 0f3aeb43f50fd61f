//! The shared memory between the controller and the runtime inside the target.
//!
//! The controller writes a [`Plan`](unsnarl_model::Plan) into it and starts the target; the runtime logs the
//! run. They exchange nothing else while the target runs. Because the memory belongs to the controller too,
//! nothing is lost however the target dies.
//!
//! Everything is `repr(C)` at fixed offsets in one memory file, which both sides map.
//!
//! ```text
//! Header | threads | modules | warnings | conflicts | inputs | files | changes | stacks | events … | choices …
//!        | plan: threads, modules, segments, actions, spans
//! ```

#![no_std]
#![forbid(unsafe_code)]

mod access;
mod event;
mod header;
mod plan;
mod steps;

pub use access::{LOGGED_ACCESSES, RawAccess};
pub use event::RawEvent;
pub use header::{
    CALLS_BYTES, CHANGE_BYTES, End, EndKind, FILE_PATH, Header, INPUT_BYTES, MAX_CONFLICTS, MAX_FILES,
    MAX_MESSAGE, MAX_MODULES, MAX_PATH, MAX_THREADS, MAX_WARNINGS, ONE_STACK_BYTES, PRIVATE_DIRECTORIES,
    PriorState, READ_CLOCK, RawChange, RawConflict, RawEnabled, RawFile, RawInput, RawModule, RawStack,
    RawThread, RawWarning, Regions, WAITING_WRITER, WITHHELD_LONG, WITHHELD_SHORT,
};
pub use plan::{
    FileRule, MAX_ORDERING_FUNCTIONS, NetworkRule, PlanThread, PlanWords, RawAction, RawSegment, RawSpan,
    SideRequest,
};
pub use steps::{
    CHUNK_WORDS, ENTER_WORDS, LEAVE_WORDS, OVERLAP_WORDS, RING_WORDS, SIGNAL_WORDS, StepKind, StepWord,
    TRACE_FULL, TracerWords, Tracing,
};

/// Must be incremented whenever anything in this crate changes: the other side refuses an unknown version.
pub const VERSION: u32 = 27;

/// The first word of the memory.
pub const MAGIC: u64 = u64::from_le_bytes(*b"unsnarl\x01");

/// The environment variable that holds the memory's file descriptor. Without it the runtime stays passive:
/// the program runs as if it were not there.
pub const WIRE_VARIABLE: &str = "UNSNARL_WIRE";

/// The environment variable with the abstract socket at which programs started by a launcher ask whether they
/// are the one to be controlled. They write their process id, four bytes, and receive one byte, a
/// [`FollowAnswer`].
pub const FOLLOW_VARIABLE: &str = "UNSNARL_FOLLOW";

/// The answer to a program that a launcher started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum FollowAnswer {
    /// It runs as it would without unsnarl.
    Run = b'r',
    /// It is the one to be controlled: it waits, and ends when the connection does.
    Wait = b'w',
}

/// An environment entry that the controller adds: OpenMP's threads must wait at once instead of spinning
/// first, because no other thread runs meanwhile. The runtime removes it before main.
pub const SPIN_COUNT: &str = "GOMP_SPINCOUNT=0";

/// A value that the controller adds to a variable of the environment, for code that runs before main. There
/// `NAME=ours` is removed, and `NAME=theirs:ours` becomes `NAME=theirs` again.
#[derive(Clone, Copy, Debug)]
pub struct AddedValue {
    /// The variable.
    pub name: &'static str,
    /// A value that users do not set.
    pub value: &'static str,
}

impl AddedValue {
    /// Returns how many bytes of an entry are the user's, 0 if it has to be removed; `None` if the controller
    /// has added nothing to it.
    #[must_use]
    pub fn users_part(&self, entry: &[u8]) -> Option<usize> {
        let theirs = entry.strip_suffix(self.value.as_bytes())?;
        let value = theirs.strip_prefix(self.name.as_bytes())?.strip_prefix(b"=")?;
        match value {
            [] => Some(0),
            [.., b':'] => Some(theirs.len() - 1),
            _ => None,
        }
    }
}

/// Makes the loader bind all functions before the program starts and, later, whenever it opens a library. The
/// loader accepts any value but an empty one.
pub const BIND_NOW: AddedValue = AddedValue { name: "LD_BIND_NOW", value: "unsnarl" };

/// Switches the leak detection of AddressSanitizer and LeakSanitizer off: it stops the program's threads in real
/// time, when the program ends. Sanitizers accept the same option twice, and users have no reason to give it so.
pub const NO_LEAK_DETECTION: AddedValue =
    AddedValue { name: "LSAN_OPTIONS", value: "detect_leaks=0,detect_leaks=0" };

/// The soft stack limit in bytes with which the controller starts a program whose stack is unlimited.
/// Otherwise the kernel would choose another address space layout, bottom up from the middle, which the race
/// detector does not watch. The runtime recognises this exact value and removes the limit before main.
pub const UNLIMITED_STACK: u64 = 64 << 30;

/// The target's file descriptor of the memory. It is fixed, so that the environment and with it the stack
/// layout is the same in every run.
pub const DESCRIPTOR: i32 = 198;

/// The file descriptor on which a serving target communicates with the controller.
///
/// The controller writes one byte, a [`Request`]. For a run the target, which waits for it before main, forks
/// and answers when the child has ended: with its process id, its status and 0, four bytes each. A process
/// that is rewound after its run answers itself, with 1 at the end. If it could be rewound, it takes the next
/// request of that kind; on other requests it exits. For a snapshot the target answers with the process id
/// only.
pub const SERVICE: i32 = 199;

/// The file descriptors on which snapshots communicate with the controller: number 1 on the first of them,
/// and so on.
///
/// A snapshot is a run that reached the end of its plan and waits there. It writes a nonzero number when it
/// is ready. From then on it serves runs and further snapshots, as the target does before main. If it cannot
/// wait there, it writes 0, and the message of the end is the reason.
pub const SNAPSHOTS: [i32; 3] = [200, 201, 202];

/// The extra memory that a snapshot maps for plans that are longer than its own.
pub const PLAN_RESERVE: u64 = 1 << 30;

/// A request of the controller to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Exit.
    End,
    /// Make a run.
    Run,
    /// Make a run whose process returns to its start for the next one, if it can.
    Rewind,
    /// Make a run that becomes the snapshot of this number.
    Snapshot(u8),
}

impl Request {
    /// Encodes the request.
    #[must_use]
    pub const fn byte(self) -> u8 {
        match self {
            Self::End => 0,
            Self::Run => 1,
            Self::Rewind => 2,
            Self::Snapshot(number) => 2 + number,
        }
    }

    /// Decodes a request.
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

/// The signal by which the controller asks a target for its location when the time limit expires. The C
/// library reserves it to cancel threads, which the runtime does instead. Programs can neither block nor
/// handle it.
pub const TIMEOUT_SIGNAL: i32 = 32;

/// The signal by which the controller makes a target without schedule points check whether it waits in a
/// loop. It is the other one that the C library reserves, to change the user of all kernel threads, of which
/// there is only one.
pub const SPIN_CHECK_SIGNAL: i32 = 33;

/// The reason for refusing programs with a Java virtual machine, by their file or when they load the machine.
pub const JVM_REFUSED: &str = "it is a Java virtual machine, which stops its threads by faults and switches them \
     by itself; unsnarl is for C, C++ and Rust";

/// The message of a run that ends before the program takes a port that it chose.
pub const PORT: &str = "port";

/// The message of a run that ends before the program starts a child, which may change files.
pub const CHILD: &str = "child";

/// The message of a run that ends before the program talks to anybody outside its own network.
pub const PEER_OUTSIDE: &str = "network";

/// The message of a timeout if the program could only have continued by input from outside.
pub const WAITED_OUTSIDE: &str = "outside";

/// The file name of the runtime library.
pub const RUNTIME_LIBRARY: &str = "libunsnarl_rt.so";

/// The addresses of the runtime's private memory: the race detector's shadow memory, the runtime's heaps and
/// stacks. Programs are never put there.
pub const RUNTIME_MEMORY: [core::ops::Range<u64>; 2] =
    [0x1000_0000_0000..0x3000_0000_0000, 0x6000_0000_0000..0x6f00_0000_0000];
