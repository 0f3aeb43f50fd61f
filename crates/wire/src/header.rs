//! The header of the shared memory, and the tables behind it.

use crate::{
    MAGIC, PlanThread, PlanWords, RawAccess, RawAction, RawEvent, RawSegment, RawSpan, TracerWords, VERSION,
};
use core::sync::atomic::{AtomicU32, AtomicU64};
use unsnarl_model::EnabledThreads;

/// The maximum number of threads that a run may create.
pub const MAX_THREADS: usize = 1 << 16;
/// The maximum number of modules that a run may load.
pub const MAX_MODULES: usize = 512;
/// The maximum number of recorded warnings.
pub const MAX_WARNINGS: usize = 256;
/// The maximum number of recorded conflicts.
pub const MAX_CONFLICTS: usize = 4096;
/// The size of a module's path in bytes.
pub const MAX_PATH: usize = 488;
/// The size of the message about the end in bytes.
pub const MAX_MESSAGE: usize = 2000;
/// The size of the recorded inputs in bytes.
pub const INPUT_BYTES: u64 = 64 << 20;
/// The maximum number of files with a name.
pub const MAX_FILES: usize = 512;
/// The size of a file's path in bytes.
pub const FILE_PATH: usize = 248;
/// The size of the recorded changes of files in bytes.
pub const CHANGE_BYTES: u64 = 64 << 20;
/// The size of the list of private directories in bytes.
pub const PRIVATE_DIRECTORIES: usize = 2048;
/// The size of the stack copies in bytes.
const STACK_BYTES: u64 = 4 << 20;
/// The maximum size of one stack copy with its head.
pub const ONE_STACK_BYTES: u64 = (128 << 10) + 4096;
/// The size of the call stack of one event with its head: the innermost frames, up to the user's code.
pub const CALLS_BYTES: u64 = 16 << 10;

/// A time-out did not expire early because others had expired early shortly before.
pub const WITHHELD_SHORT: u32 = 1;
/// A time-out did not expire early because it is long.
pub const WITHHELD_LONG: u32 = 2;

/// In [`Header::influences`]: the program read a clock while it had several threads.
pub const READ_CLOCK: u32 = 1;

/// In [`Header::influences`]: a reader could not have a lock because a writer waited for it.
pub const WAITING_WRITER: u32 = 2;

/// The header of the shared memory.
#[repr(C)]
#[derive(Debug)]
pub struct Header {
    /// [`MAGIC`].
    pub magic: u64,
    /// [`VERSION`].
    pub version: u32,
    /// 1 once the runtime has taken control.
    pub attached: AtomicU32,
    /// 1 if the target shall wait before main and run once for each request on [`crate::SERVICE`].
    pub serve: u32,
    /// The process that makes the run, stored by its parent.
    pub process: AtomicU32,
    /// The offsets of the tables.
    pub regions: Regions,
    /// The scalar values of the plan.
    pub plan: PlanWords,
    /// The number of events written.
    pub events: AtomicU64,
    /// The number of threads created, main included.
    pub threads: AtomicU32,
    /// The number of modules seen.
    pub modules: AtomicU32,
    /// The number of warnings written.
    pub warnings: AtomicU32,
    /// The thread of a Rust panic + 1; 0 if there was none.
    pub panicked: AtomicU32,
    /// The number of conflicts written.
    pub conflicts: AtomicU32,
    /// The number of pages that the process has only because it is rewound.
    pub saved_pages: AtomicU32,
    /// The time-outs that had to wait although they were a choice: a combination of [`WITHHELD_SHORT`] and
    /// [`WITHHELD_LONG`].
    pub withheld: AtomicU32,
    /// Influences beside the order of events: a combination of [`READ_CLOCK`] and [`WAITING_WRITER`].
    pub influences: AtomicU32,
    /// 1 + the number of events before the program's first use of a random number; 0 if there was none.
    pub first_random: AtomicU64,
    /// The number of bytes of inputs written.
    pub inputs: AtomicU64,
    /// The number of bytes of stacks written.
    pub stacks: AtomicU64,
    /// The number of plain accesses logged, including those that later ones have replaced.
    pub accesses: AtomicU64,
    /// The number of bytes of changes of files written.
    pub changes: AtomicU64,
    /// The number of files with a name.
    pub files: AtomicU32,
    /// 1 if the run has changed files.
    pub changed_files: AtomicU32,
    /// The words of the instruction tracer.
    pub tracer: TracerWords,
    /// The directories of which the program has a private view, each with a zero at its end.
    pub private_directories: [u8; PRIVATE_DIRECTORIES],
    /// The outcome of the run, if the runtime knows it.
    pub end: End,
}

/// Byte offsets of the tables, all of them multiples of 64.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Regions {
    /// [`RawThread`]s.
    pub threads: u64,
    /// [`RawModule`]s.
    pub modules: u64,
    /// [`RawWarning`]s.
    pub warnings: u64,
    /// [`RawConflict`]s.
    pub conflicts: u64,
    /// [`RawInput`]s, each followed by its bytes: the recorded inputs.
    pub inputs: u64,
    /// [`RawFile`]s.
    pub files: u64,
    /// [`RawChange`]s, each followed by its bytes.
    pub changes: u64,
    /// [`RawStack`]s, each followed by its bytes.
    pub stacks: u64,
    /// The end of `stacks`, and the start of the [`RawStack`]s of the two sides of a requested conflict, each
    /// with room for [`ONE_STACK_BYTES`].
    pub stacks_end: u64,
    /// [`RawEvent`]s.
    pub events: u64,
    /// [`RawEnabled`] for each event, if the plan asks for them.
    pub choices: u64,
    /// [`PlanThread`]s.
    pub plan_threads: u64,
    /// [`RawModule`]s, only their paths.
    pub plan_modules: u64,
    /// [`RawSegment`]s.
    pub plan_segments: u64,
    /// [`RawAction`]s.
    pub plan_actions: u64,
    /// [`RawSpan`]s.
    pub plan_spans: u64,
    /// [`RawModule`]s, only their paths: the modules whose instructions are traced.
    pub traced: u64,
    /// For each thread, the number of events after which it is no longer traced. Words.
    pub until: u64,
    /// The addresses of functions at which a thread's trace pauses until it unwinds. Words.
    pub pauses: u64,
    /// [`RawInput`]s: the inputs to replay.
    pub plan_inputs: u64,
    /// The numbers of the events whose call stacks are requested, in order. Words.
    pub stack_requests: u64,
    /// For each of these a [`RawStack`] with room for [`CALLS_BYTES`].
    pub calls: u64,
    /// The instruction trace. Words.
    pub steps: u64,
    /// [`RawAccess`]es: a ring.
    pub accesses: u64,
    /// The size of the memory.
    pub total: u64,
}

impl Regions {
    /// Lays out a plan of this size and so many events.
    #[must_use]
    pub const fn new(plan: &PlanWords, events: u64) -> Self {
        const fn up(at: u64) -> u64 {
            at.next_multiple_of(4096)
        }
        let threads = up(size_of::<Header>() as u64);
        let modules = up(threads + (MAX_THREADS * size_of::<RawThread>()) as u64);
        let warnings = up(modules + (MAX_MODULES * size_of::<RawModule>()) as u64);
        let conflicts = up(warnings + (MAX_WARNINGS * size_of::<RawWarning>()) as u64);
        let inputs = up(conflicts + (MAX_CONFLICTS * size_of::<RawConflict>()) as u64);
        let files = up(inputs + INPUT_BYTES);
        let changes = up(files + (MAX_FILES * size_of::<RawFile>()) as u64);
        let stacks = up(changes + CHANGE_BYTES);
        let stacks_end = up(stacks + STACK_BYTES);
        let log = up(stacks_end + 2 * ONE_STACK_BYTES);
        let choices = up(log + events * size_of::<RawEvent>() as u64);
        // The plan comes last, so that the other offsets do not depend on its size.
        let plan_threads = up(choices + events * plan.choices as u64 * size_of::<RawEnabled>() as u64);
        let plan_modules = up(plan_threads + plan.threads * size_of::<PlanThread>() as u64);
        let plan_segments = up(plan_modules + plan.modules * size_of::<RawModule>() as u64);
        let plan_actions = up(plan_segments + plan.segments * size_of::<RawSegment>() as u64);
        let plan_spans = up(plan_actions + plan.actions * size_of::<RawAction>() as u64);
        let traced = up(plan_spans + plan.spans * size_of::<RawSpan>() as u64);
        let until = up(traced + plan.traced * size_of::<RawModule>() as u64);
        let pauses = up(until + plan.until * size_of::<u64>() as u64);
        let plan_inputs = up(pauses + plan.pauses * size_of::<u64>() as u64);
        let stack_requests = up(plan_inputs + plan.inputs);
        let calls = up(stack_requests + plan.stack_requests * size_of::<u64>() as u64);
        let steps = up(calls + plan.stack_requests * CALLS_BYTES);
        let accesses = up(steps + plan.step_words * size_of::<u64>() as u64);
        let total = up(accesses + plan.accesses * size_of::<RawAccess>() as u64);
        Self {
            threads,
            modules,
            warnings,
            conflicts,
            inputs,
            files,
            changes,
            stacks,
            stacks_end,
            events: log,
            choices,
            plan_threads,
            plan_modules,
            plan_segments,
            plan_actions,
            plan_spans,
            traced,
            until,
            pauses,
            plan_inputs,
            stack_requests,
            calls,
            steps,
            accesses,
            total,
        }
    }
}

impl Header {
    /// Creates the header for a new run.
    #[must_use]
    pub const fn new(regions: Regions, plan: PlanWords, serve: bool) -> Self {
        Self {
            magic: MAGIC,
            version: VERSION,
            attached: AtomicU32::new(0),
            serve: serve as u32,
            process: AtomicU32::new(0),
            regions,
            plan,
            events: AtomicU64::new(0),
            threads: AtomicU32::new(0),
            modules: AtomicU32::new(0),
            warnings: AtomicU32::new(0),
            panicked: AtomicU32::new(0),
            conflicts: AtomicU32::new(0),
            saved_pages: AtomicU32::new(0),
            withheld: AtomicU32::new(0),
            influences: AtomicU32::new(0),
            first_random: AtomicU64::new(0),
            inputs: AtomicU64::new(0),
            stacks: AtomicU64::new(0),
            accesses: AtomicU64::new(0),
            changes: AtomicU64::new(0),
            files: AtomicU32::new(0),
            changed_files: AtomicU32::new(0),
            tracer: TracerWords::new(),
            private_directories: [0; PRIVATE_DIRECTORIES],
            end: End {
                kind: EndKind::Unknown,
                signal: 0,
                thread: 0,
                message_len: 0,
                addr: 0,
                pc: 0,
                diverged_point: 0,
                diverged_thread: 0,
                diverged_op: 0,
                signal_code: 0,
                round: 0,
                message: [0; MAX_MESSAGE],
            },
        }
    }
}

/// A thread as the runtime records it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RawThread {
    /// The thread that created it.
    pub parent: u32,
    /// Its ordinal among its creator's children, from 1; 0 for main.
    pub nth: u32,
    /// The address of its start routine.
    pub start: u64,
    /// 1 once it has ended.
    pub ended: u32,
    /// 1 if it is blocked; at the end of a run, these are the deadlocked threads.
    pub blocked: u32,
    /// The number of its pending operation.
    pub op: u32,
    /// 1 if it was joined or detached.
    pub joined_or_detached: u32,
    /// The site of the operation.
    pub pc: u64,
    /// The object of the operation.
    pub addr: u64,
    /// The thread that must act before it can go on, if there is exactly one; else `u64::MAX`.
    pub holder: u64,
    /// Its name, zero-terminated.
    pub name: [u8; 16],
}

/// A module as the runtime found it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RawModule {
    /// The difference between its addresses here and in the file.
    pub base: u64,
    /// The start of its image.
    pub start: u64,
    /// The end of its image.
    pub end: u64,
    /// Its path, zero-terminated; empty for the program itself.
    pub path: [u8; MAX_PATH],
}

/// A misuse as the runtime records it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RawWarning {
    /// The [`unsnarl_model::Misuse`]'s number.
    pub misuse: u32,
    /// The thread.
    pub thread: u32,
    /// The site.
    pub pc: u64,
    /// The object.
    pub addr: u64,
    /// The number of events before it.
    pub at: u64,
    /// A detail, zero-terminated.
    pub detail: [u8; 64],
}

/// Two conflicting operations as the runtime records them.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RawConflict {
    /// The [`unsnarl_model::ConflictKind`]'s number.
    pub kind: u8,
    /// The operations' numbers.
    pub ops: [u8; 2],
    /// Padding for alignment.
    pub padding: u8,
    /// The threads.
    pub threads: [u16; 2],
    /// Return addresses.
    pub pcs: [u64; 2],
    /// The object.
    pub addr: u64,
}

/// The head of a recorded input. Its bytes follow, padded to a multiple of eight.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct RawInput {
    /// The thread that received it: its index in the run, or its entry in the plan.
    pub thread: u32,
    /// The operation's number.
    pub op: u16,
    /// A combination of [`Self::TIMED_OUT`] and [`Self::BLOCKED`].
    pub flags: u16,
    /// The requested amount.
    pub requested: u64,
    /// The result.
    pub result: i64,
    /// The number of bytes that follow.
    pub len: u64,
}

impl RawInput {
    /// The wait timed out.
    pub const TIMED_OUT: u16 = 1;
    /// The thread had to wait.
    pub const BLOCKED: u16 = 2;

    /// Returns the distance to the next input.
    #[must_use]
    pub const fn size(&self) -> u64 {
        size_of::<Self>() as u64 + self.len.next_multiple_of(8)
    }
}

/// A file that the program used.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RawFile {
    /// The object by which events name it, see [`unsnarl_model::FileName::object`].
    pub object: u64,
    /// Its path, zero-terminated.
    pub path: [u8; FILE_PATH],
}

/// The head of a recorded change of a file: what was there before. Its path, another path and its contents follow,
/// together padded to a multiple of eight.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct RawChange {
    /// The [`PriorState`]'s number.
    pub kind: u32,
    /// The permissions.
    pub mode: u32,
    /// The owner and group.
    pub owner: [u32; 2],
    /// The time of the last access: seconds and nanoseconds.
    pub accessed: [i64; 2],
    /// The time of the last modification.
    pub modified: [i64; 2],
    /// The length of the path.
    pub path_len: u64,
    /// The length of the target of a link, or of the path that a file had before.
    pub other_len: u64,
    /// The length of the contents.
    pub contents_len: u64,
}

impl RawChange {
    /// Returns the distance to the next change; `None` if the lengths are impossible.
    #[must_use]
    pub fn size(&self) -> Option<u64> {
        let bytes = self.path_len.checked_add(self.other_len)?.checked_add(self.contents_len)?;
        bytes.checked_next_multiple_of(8)?.checked_add(size_of::<Self>() as u64)
    }
}

/// The object of a path before a change.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PriorState {
    /// Nothing.
    Absent,
    /// A regular file with these contents.
    File,
    /// A symbolic link.
    Link,
    /// A directory.
    Directory,
    /// A file that gets its name from another path.
    Renamed,
    /// A file whose attributes alone change.
    Attributes,
}

impl PriorState {
    /// Returns the state with this number.
    #[must_use]
    pub const fn from_number(number: u32) -> Option<Self> {
        Some(match number {
            0 => Self::Absent,
            1 => Self::File,
            2 => Self::Link,
            3 => Self::Directory,
            4 => Self::Renamed,
            5 => Self::Attributes,
            _ => return None,
        })
    }
}

/// The threads that could have run instead of the event's, see [`EnabledThreads`].
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RawEnabled {
    /// See [`EnabledThreads::can_run`].
    pub can_run: u64,
    /// See [`EnabledThreads::yields`].
    pub yields: u64,
}

impl From<RawEnabled> for EnabledThreads {
    fn from(RawEnabled { can_run, yields }: RawEnabled) -> Self {
        Self { can_run, yields }
    }
}

/// The head of a stack copy.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RawStack {
    /// The thread.
    pub thread: u64,
    /// 1 or 2 for the call stack of a side of a requested conflict, or 1 + the event's number for a requested
    /// event; else 0.
    pub side: u64,
    /// rip, rsp, rbp, rbx, r12, r13, r14, r15.
    pub registers: [u64; 8],
    /// The original address of the copied bytes.
    pub base: u64,
    /// The number of bytes that follow.
    pub len: u64,
}

/// The outcome of the run, as far as the runtime knows it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct End {
    /// The kind of the end.
    pub kind: EndKind,
    /// The signal's number.
    pub signal: i32,
    /// The responsible thread.
    pub thread: u32,
    /// The length of the message in bytes.
    pub message_len: u32,
    /// The address at fault, if the signal's code says that the kernel knows it.
    pub addr: u64,
    /// The code address.
    pub pc: u64,
    /// The schedule point at which the run left the plan.
    pub diverged_point: u64,
    /// The thread that should have run, by the plan's numbering.
    pub diverged_thread: u32,
    /// 1 + the number of its pending operation instead; 0 if it could not run.
    pub diverged_op: u32,
    /// The signal's code (`si_code`).
    pub signal_code: i32,
    /// For a livelock: the number of events, up to the last, that the threads repeat; 0 if the last event is
    /// repeated, or none.
    pub round: u64,
    /// The last message of the program or of the runtime.
    pub message: [u8; MAX_MESSAGE],
}

/// The way in which a run ended.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndKind {
    /// The runtime did not see it: an ordinary exit, or SIGKILL.
    Unknown,
    /// The program exited.
    Exit,
    /// No thread can go on.
    Deadlock,
    /// A signal.
    Signal,
    /// A failed assertion, followed by its SIGABRT.
    Assertion,
    /// Nothing changes any more.
    Livelock,
    /// The controller's time limit expired.
    Timeout,
    /// The event log is full.
    Full,
    /// The plan ended before the program did.
    PlanEnd,
    /// The plan could not be followed.
    Diverged,
    /// The runtime cannot control this program; the message says why.
    Refused,
    /// A bug in the runtime.
    Internal,
    /// A library that the program opened cannot be bound eagerly; the message says why.
    NeedsLazyBinding,
    /// The program was about to change a file, which it must not in this run; the message is the path. Or it was about
    /// to use the network in a way that it must not; the message is [`crate::PORT`] or [`crate::PEER_OUTSIDE`];
    /// or it was about to start a child: [`crate::CHILD`].
    ChangesFiles,
}
