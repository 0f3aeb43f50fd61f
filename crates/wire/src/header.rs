//! What stands at the beginning of the memory, and the tables behind it.

use crate::{MAGIC, PlanThread, PlanWords, RawAction, RawEvent, RawSegment, RawSpan, TracerWords, VERSION};
use core::sync::atomic::{AtomicU32, AtomicU64};

/// Threads that a run may create.
pub const MAX_THREADS: usize = 1 << 16;
/// Modules that a run may load.
pub const MAX_MODULES: usize = 512;
/// Warnings that are kept.
pub const MAX_WARNINGS: usize = 256;
/// Conflicts that are kept.
pub const MAX_CONFLICTS: usize = 4096;
/// Bytes of a module's path.
pub const MAX_PATH: usize = 488;
/// Bytes of a message about the end.
pub const MAX_MESSAGE: usize = 2000;
/// Bytes of what came from outside that are kept.
pub const INPUT_BYTES: u64 = 64 << 20;
/// Bytes for copies of stacks.
const STACK_BYTES: u64 = 4 << 20;
/// Bytes for a copy of one stack with its head, at most.
pub const ONE_STACK_BYTES: u64 = (128 << 10) + 4096;
/// Bytes for a copy of the calls that led to one event, with its head: the innermost, up to the user's own code.
pub const CALLS_BYTES: u64 = 16 << 10;

/// The beginning of the memory.
#[repr(C)]
#[derive(Debug)]
pub struct Header {
    /// [`MAGIC`].
    pub magic: u64,
    /// [`VERSION`].
    pub version: u32,
    /// 1 once the runtime has taken control.
    pub attached: AtomicU32,
    /// 1 if the target shall wait before main and run once for each request at [`crate::SERVICE`].
    pub serve: u32,
    /// The process that makes the run, told by who forked it.
    pub process: AtomicU32,
    /// Where everything is.
    pub regions: Regions,
    /// The plan's single figures.
    pub plan: PlanWords,
    /// Events written.
    pub events: AtomicU64,
    /// Threads created, main included.
    pub threads: AtomicU32,
    /// Modules seen.
    pub modules: AtomicU32,
    /// Warnings written.
    pub warnings: AtomicU32,
    /// Whether a Rust panic was seen, and by whom (thread + 1).
    pub panicked: AtomicU32,
    /// Conflicts written.
    pub conflicts: AtomicU32,
    /// Pages of memory that the process has only because it is rewound.
    pub saved_pages: AtomicU32,
    /// Bytes of inputs written.
    pub inputs: AtomicU64,
    /// Bytes of stacks written.
    pub stacks: AtomicU64,
    /// Where the instruction trace is written.
    pub tracer: TracerWords,
    /// How the run ended, if the runtime knows.
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
    /// [`RawInput`]s, each followed by its bytes: what came from outside.
    pub inputs: u64,
    /// [`RawStack`]s, each followed by its bytes.
    pub stacks: u64,
    /// Where `stacks` ends, and the [`RawStack`]s of the two sides of a wanted conflict begin, each with room for
    /// [`ONE_STACK_BYTES`].
    pub stacks_end: u64,
    /// [`RawEvent`]s.
    pub events: u64,
    /// For each event, if the plan asks for it: [`Choices`].
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
    /// [`RawModule`]s, only their paths: whose instructions are traced.
    pub traced: u64,
    /// For each thread: after how many events it is no longer traced. Words.
    pub until: u64,
    /// Addresses of functions at which the trace of a thread pauses until it unwinds. Words.
    pub pauses: u64,
    /// [`RawInput`]s: what is to come from outside.
    pub plan_inputs: u64,
    /// Words: the numbers of the events whose calls are wanted, in order.
    pub stack_requests: u64,
    /// For each of these a [`RawStack`] with room for [`CALLS_BYTES`].
    pub calls: u64,
    /// The instruction trace: words.
    pub steps: u64,
    /// The memory's size.
    pub total: u64,
}

impl Regions {
    /// Room for a plan of this size and so many events.
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
        let stacks = up(inputs + INPUT_BYTES);
        let stacks_end = up(stacks + STACK_BYTES);
        let log = up(stacks_end + 2 * ONE_STACK_BYTES);
        let choices = up(log + events * size_of::<RawEvent>() as u64);
        // The plan comes last: where all the rest is does not depend on its size.
        let plan_threads = up(choices + events * plan.choices as u64 * size_of::<Choices>() as u64);
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
        let total = up(steps + plan.step_words * size_of::<u64>() as u64);
        Self {
            threads,
            modules,
            warnings,
            conflicts,
            inputs,
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
            total,
        }
    }
}

impl Header {
    /// The beginning of a run.
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
            inputs: AtomicU64::new(0),
            stacks: AtomicU64::new(0),
            tracer: TracerWords::new(),
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
                message: [0; MAX_MESSAGE],
            },
        }
    }
}

/// A thread, as the runtime tells it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RawThread {
    /// Who created it.
    pub parent: u32,
    /// The how-manieth child of its creator, from 1; 0 for main.
    pub nth: u32,
    /// The address of its start routine.
    pub start: u64,
    /// 1 once it ended.
    pub ended: u32,
    /// 1 if it cannot go on: at the end of a run, the deadlock's cast.
    pub blocked: u32,
    /// What it is about to do: an operation's number.
    pub op: u32,
    /// 1 if it was joined or detached.
    pub joined_or_detached: u32,
    /// From where.
    pub pc: u64,
    /// On what.
    pub addr: u64,
    /// Who would have to act, where that is one thread; else `u64::MAX`.
    pub holder: u64,
    /// Its name, ended by zero.
    pub name: [u8; 16],
}

/// A module, as the runtime found it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RawModule {
    /// What to subtract from an address to get the file's own.
    pub base: u64,
    /// Where its image begins.
    pub start: u64,
    /// Where its image ends.
    pub end: u64,
    /// Its path, ended by zero; empty for the program itself.
    pub path: [u8; MAX_PATH],
}

/// Wrong use of something, as the runtime tells it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RawWarning {
    /// The [`unsnarl_model::Misuse`]'s number.
    pub misuse: u32,
    /// Whose doing.
    pub thread: u32,
    /// From where.
    pub pc: u64,
    /// On what.
    pub addr: u64,
    /// After how many events.
    pub at: u64,
    /// More about it, ended by zero.
    pub detail: [u8; 64],
}

/// Two operations in conflict, as the runtime tells them.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RawConflict {
    /// The [`unsnarl_model::ConflictKind`]'s number.
    pub kind: u8,
    /// The operations' numbers.
    pub ops: [u8; 2],
    /// Nothing; keeps what follows aligned.
    pub padding: u8,
    /// Who.
    pub threads: [u16; 2],
    /// Return addresses.
    pub pcs: [u64; 2],
    /// On what.
    pub addr: u64,
}

/// The head of something that came from outside. Its bytes follow, up to a multiple of eight.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct RawInput {
    /// Who asked: the thread's number in the run, or its entry in the plan.
    pub thread: u32,
    /// The operation's number.
    pub op: u16,
    /// 1 if time was up, and 2 if the thread had to wait.
    pub flags: u16,
    /// For how much.
    pub requested: u64,
    /// The answer.
    pub result: i64,
    /// How many bytes follow.
    pub len: u64,
}

impl RawInput {
    /// Time was up.
    pub const TIMED_OUT: u16 = 1;
    /// The thread had to wait.
    pub const BLOCKED: u16 = 2;

    /// How far the next one is.
    #[must_use]
    pub const fn size(&self) -> u64 {
        size_of::<Self>() as u64 + self.len.next_multiple_of(8)
    }
}

/// Who of the first 64 threads, a bit for each, could have run the event's operation in its place.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Choices {
    /// All of them.
    pub can_run: u64,
    /// Those who would rather not: they yield or spin, or their time would have to be up.
    pub yields: u64,
}

/// The head of a copy of a stack.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RawStack {
    /// Whose.
    pub thread: u64,
    /// 1 or 2 for the calls that led to a side of a wanted conflict; else 0. For an event whose calls were wanted: 1 + its
    /// number.
    pub side: u64,
    /// rip, rsp, rbp, rbx, r12, r13, r14, r15.
    pub registers: [u64; 8],
    /// Where the copied bytes were.
    pub base: u64,
    /// How many follow.
    pub len: u64,
}

/// How the run ended, as far as the runtime could tell.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct End {
    /// In which way.
    pub kind: EndKind,
    /// The signal's number.
    pub signal: i32,
    /// Whose doing.
    pub thread: u32,
    /// Bytes of the message.
    pub message_len: u32,
    /// The address at fault.
    pub addr: u64,
    /// Where in the code.
    pub pc: u64,
    /// At which point the plan was left.
    pub diverged_point: u64,
    /// Who should have run, by the plan's numbering.
    pub diverged_thread: u32,
    /// 1 + what it was about to do instead; 0 if it could not run.
    pub diverged_op: u32,
    /// The program's last words, or the runtime's.
    pub message: [u8; MAX_MESSAGE],
}

/// In which way a run ended.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndKind {
    /// The runtime did not see it: an ordinary exit, or SIGKILL.
    Unknown,
    /// The program exits.
    Exit,
    /// Nobody can go on.
    Deadlock,
    /// A signal.
    Signal,
    /// A failed assertion, followed by its SIGABRT.
    Assertion,
    /// Nothing changes any more.
    Livelock,
    /// The controller said that time is up.
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
}
