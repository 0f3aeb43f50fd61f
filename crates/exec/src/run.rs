//! Executes one plan and returns one run.

use crate::{
    Error,
    binding::Binding,
    collect::{self, ModuleFiles},
    memory::{RunMode, SharedMemory, StackRequest, TracingRequest, append_only, memory_file},
    notes,
    process::{
        Launch, Process, Server, SnapshotProcess, Streams, WaitResult, raise_descriptor_limit, replace,
    },
    snapshot::{self, NoSnapshot, Snapshot},
    steps::{CompressedSteps, WordProgress},
};
use std::{
    cell::RefCell,
    fs::File,
    io::{Seek, SeekFrom, Write},
    os::unix::{fs::FileExt, process::ExitStatusExt},
    process::{Child, ExitStatus},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};
use unsnarl_model::{Conflict, Divergence, Module, Op, Output, Plan, Program, Site, Trace};
use unsnarl_wire::{Choices, EndKind, PLAN_RESERVE, SideRequest, Tracing};

/// Settings of runs that are not part of the plan.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Forward the program's output while it runs.
    pub echo: bool,
    /// Load the program once and fork it for each run; for many runs.
    pub serve: bool,
    /// Rewind processes that resume from a snapshot, so that each makes many runs. The result of a run does not depend
    /// on it.
    pub rewind: bool,
    /// There are idle processors: waiting for another process spins for a while before it sleeps.
    pub busy_waits: bool,
    /// Bytes of output at which a run is stopped; `None` for no limit.
    pub output_limit: Option<u64>,
    /// Bytes of private memory at which a run is stopped; `None` for no limit.
    pub memory_limit: Option<u64>,
    /// Ends the current run when set to true.
    pub interrupt: Option<Arc<AtomicBool>>,
    /// Deadline at which the current run is ended, like an interrupt.
    pub until: Option<Instant>,
    /// Backend of the program's threads. The result of a run does not depend on it.
    pub threads: ThreadBackend,
}

/// Backend of the program's threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ThreadBackend {
    /// All on one kernel thread: fast, and snapshots can be taken.
    #[default]
    Fibers,
    /// Each on its own kernel thread, of which one runs at a time.
    Kernel,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            echo: false,
            serve: false,
            rewind: true,
            busy_waits: false,
            output_limit: Some(64 << 20),
            memory_limit: Some(4 << 30),
            interrupt: None,
            until: None,
            threads: ThreadBackend::Fibers,
        }
    }
}

/// Runs one program any number of times, each time by a plan.
pub struct Executor {
    program: Program,
    binding: Binding,
    settings: Settings,
    memory: SharedMemory,
    streams: Streams,
    /// Snapshots from which runs resume. The other ones are forked from the first one.
    snapshots: Vec<Snapshot>,
    server: Option<Server>,
    rewinding: RewindPolicy,
    /// The last run wrote nothing and left no process behind that could write.
    is_silent: bool,
    files: RefCell<ModuleFiles>,
}

impl std::fmt::Debug for Executor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Executor").field("program", &self.program.path).finish_non_exhaustive()
    }
}

/// A finished run; its results are still in shared memory.
#[derive(Debug)]
pub struct Run<'a> {
    executor: &'a Executor,
    plan: &'a Plan,
    status: ExitStatus,
    stopped: Option<LimitReached>,
    rewound: bool,
    /// Output of the program.
    pub output: Output,
}

impl Executor {
    /// Prepares runs of the program.
    ///
    /// # Errors
    /// Returns an error if the system refuses memory.
    pub fn new(program: Program, settings: Settings) -> Result<Self, Error> {
        raise_descriptor_limit()?;
        let streams = streams(&program)?;
        let binding = Binding::of(&program)?;
        let mut memory = SharedMemory::new(&program)?;
        let server = if settings.serve {
            Some(start_server(&program, &binding, &streams, &mut memory)?)
        } else {
            None
        };
        let (snapshots, rewinding) = (Vec::new(), RewindPolicy::default());
        let files = RefCell::default();
        Ok(Self {
            program,
            binding,
            memory,
            streams,
            snapshots,
            server,
            rewinding,
            is_silent: false,
            files,
            settings,
        })
    }

    /// Returns the program.
    #[must_use]
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Runs the program by this plan.
    ///
    /// # Errors
    /// If the run could not be made or the program could not be controlled. A failure of the program is not an error:
    /// it is the run's outcome.
    pub fn run<'a>(&'a mut self, plan: &'a Plan) -> Result<Run<'a>, Error> {
        if plan.conflicts && !self.memory.can_detect_races {
            let reason = "the program contains AddressSanitizer, which uses the race detector's addresses";
            notes::add(format!("{reason}: data race detection is off"));
        }
        self.run_with(plan, StackRequest::default(), TracingRequest::default(), None)
    }

    /// Runs the plan again and returns the call stacks of both sides of a conflict that an earlier run of it had,
    /// innermost frame first.
    ///
    /// # Errors
    /// Returns an error in the same cases as [`run`](Self::run).
    pub fn conflict_stacks(
        &mut self,
        plan: &Plan,
        conflict: &Conflict,
        modules: &[Module],
    ) -> Result<[Vec<Site>; 2], Error> {
        let sides = conflict.sides.each_ref().map(|side| SideRequest {
            pc: modules[side.site.module.0 as usize].base + side.site.offset + 1,
            thread: side.thread.0.into(),
        });
        let options = StackRequest { sides, ..StackRequest::default() };
        self.run_with(plan, options, TracingRequest::default(), None)?;
        let Self { memory, files, program, .. } = self;
        Ok(collect::conflict_stacks(memory, &mut files.borrow_mut(), program))
    }

    /// Runs the plan again and returns the call stacks of these events, innermost frame first, as far as they can be
    /// unwound.
    ///
    /// # Errors
    /// Returns an error in the same cases as [`run`](Self::run).
    pub fn event_stacks(&mut self, plan: &Plan, events: &[u64]) -> Result<Vec<(u64, Vec<Site>)>, Error> {
        // With conflict detection the runtime sees every event.
        let plan = Plan { conflicts: true, ..plan.clone() };
        let options = StackRequest { events, ..StackRequest::default() };
        self.run_with(&plan, options, TracingRequest::default(), None)?;
        let Self { memory, files, program, .. } = self;
        Ok(collect::event_stacks(memory, &mut files.borrow_mut(), program))
    }

    /// Keeps the program in its state after the first `points` points of this plan. Runs of plans with the same prefix
    /// resume from there, which pays off for plans with a long common prefix. The result of a run does not depend on
    /// it. Returns the reason if a snapshot is not possible.
    ///
    /// # Errors
    /// Returns an error in the same cases as [`run`](Self::run).
    pub fn take_snapshot(&mut self, plan: &Plan, points: usize) -> Result<Result<(), NoSnapshot>, Error> {
        if self.settings.threads == ThreadBackend::Kernel {
            return Ok(Err(NoSnapshot::Refused(
                "a fork copies only the calling kernel thread, so snapshots need fibers".into(),
            )));
        }
        if self.snapshots.first().is_some_and(|root| root.server_process.is_gone()) {
            self.discard_snapshot(0);
        }
        let first = snapshot::first(plan, points);
        // Snapshots that are no prefix of this plan are dropped.
        if !self.snapshots.first().is_some_and(|root| root.is_prefix_of(&first)) {
            self.drop_snapshots_from(0);
        }
        if self.snapshots.iter().any(|s| s.points() == points && s.is_prefix_of(&first)) {
            return Ok(Ok(()));
        }
        if self.server.as_ref().is_some_and(|server| server.free.is_empty()) {
            self.drop_snapshots_from(1);
        }
        let Some((number, channel)) = self.server.as_mut().and_then(|server| server.free.pop()) else {
            return Ok(Err(NoSnapshot::Refused("the program is restarted for each run".into())));
        };
        let from_root = self.snapshots.first().is_some_and(|root| root.points() < points);
        let resumed = if from_root { self.snapshots[0].points() } else { 0 };
        let mode = RunMode { serve: true, snapshot: number, resumed: resumed as u64, ..RunMode::default() };
        self.memory.prepare(&snapshot::rest(&first, resumed), mode, &self.program.path)?;
        self.is_silent = false;
        self.reset_streams(from_root.then_some(0))?;
        let Self { streams, snapshots, server: Some(server), .. } = &mut *self else {
            unreachable!("the channel is the server's")
        };
        let attempts = if from_root { snapshots[0].server_process.service() } else { server.service() };
        let most = Duration::from_millis(plan.limits.millis);
        let started = match SnapshotProcess::start(attempts, (number, channel), most) {
            Err(Error::NotServing) if from_root => {
                self.discard_snapshot(0);
                return Ok(Err(NoSnapshot::Refused("the process of the snapshot was killed".into())));
            }
            started => started.map_err(|error| not_attached(error, &mut server.child, streams))?,
        };
        match started {
            Ok(server_process) => {
                let room = self.memory.header().regions.total + PLAN_RESERVE;
                let streams = self.streams_so_far()?;
                let single_threaded = self.memory.threads().len() <= 2
                    && self.memory.events().last().is_some_and(|event| event.op() == Some(Op::Create));
                self.rewinding.reset();
                self.snapshots.push(Snapshot::new(server_process, (first, single_threaded), room, streams));
                Ok(Ok(()))
            }
            Err(free) => {
                server.free.push(free);
                let message = collect::message(&self.memory.header().end);
                Ok(Err(if message.is_empty() {
                    NoSnapshot::NotReached
                } else {
                    NoSnapshot::Refused(message)
                }))
            }
        }
    }

    /// Ends the snapshots from index `from` on.
    fn drop_snapshots_from(&mut self, from: usize) {
        self.rewinding.reset();
        let from = from.min(self.snapshots.len());
        for snapshot in self.snapshots.drain(from..).rev() {
            let free = snapshot.server_process.end();
            if let Some(server) = &mut self.server {
                server.free.push(free);
            }
        }
    }

    /// Removes a snapshot whose process was ended from outside.
    fn discard_snapshot(&mut self, at: usize) {
        let free = self.snapshots.remove(at).server_process.into_lost_channel();
        if let Some(server) = &mut self.server {
            server.free.push(free);
        }
        self.drop_snapshots_from(0);
    }

    /// Returns the latest snapshot that is a prefix of this plan.
    fn nearest(&self, plan: &Plan) -> Option<usize> {
        let useful = |&at: &usize| self.snapshots[at].is_prefix_of(plan);
        (0..self.snapshots.len()).filter(useful).max_by_key(|&at| self.snapshots[at].points())
    }

    /// Restores the streams to their state before main, or at this snapshot.
    fn reset_streams(&self, snapshot: Option<usize>) -> Result<(), Error> {
        let failed = |cause| Error::System { action: "cannot reset the streams", cause };
        let nothing = snapshot::StreamState::default();
        let positions = snapshot.map_or(&nothing, |at| &self.snapshots[at].streams);
        let Streams { stdout, stderr, .. } = &self.streams;
        (&self.streams.stdin).seek(SeekFrom::Start(positions.read)).map_err(failed)?;
        for (mut stream, written) in [(stdout, &positions.stdout), (stderr, &positions.stderr)] {
            if !self.is_silent || !written.is_empty() {
                stream.set_len(0).and_then(|()| stream.write_all(written)).map_err(failed)?;
            }
        }
        Ok(())
    }

    fn streams_so_far(&self) -> Result<snapshot::StreamState, Error> {
        let failed = |cause| Error::System { action: "cannot read the streams", cause };
        Ok(snapshot::StreamState {
            read: (&self.streams.stdin).stream_position().map_err(failed)?,
            stdout: contents(&self.streams.stdout),
            stderr: contents(&self.streams.stderr),
        })
    }

    /// Runs the program by this plan and traces its instructions.
    ///
    /// # Errors
    /// As [`run`](Self::run); also if the trace exceeds its limit.
    pub fn trace<'a>(
        &'a mut self,
        plan: &'a Plan,
        options: &InstructionTraceOptions<'_>,
    ) -> Result<InstructionTrace<'a>, Error> {
        // Virtual space only: untouched pages take no memory, and pages that were read are freed.
        const UNCOMPRESSED: u64 = 256;
        const MAX_WORDS: u64 = 1 << 37;
        let &InstructionTraceOptions { how, modules, until, pauses, bytes, progress } = options;
        let words = (bytes / 8).saturating_mul(UNCOMPRESSED).min(MAX_WORDS);
        let mut steps = CompressedSteps::default();
        let mut keep = TraceCollector { limit: bytes, progress, steps: &mut steps };
        let options = TracingRequest { how, words, modules, until, pauses };
        let run = self.run_with(plan, StackRequest::default(), options, Some(&mut keep))?;
        if steps.bytes() > bytes {
            // The program ended before it noticed the stop request.
            return Err(Error::Refused(unsnarl_wire::TRACE_FULL.into()));
        }
        Ok(InstructionTrace { run, steps })
    }

    /// Starts over with lazy binding.
    fn bind_lazily(&mut self) -> Result<(), Error> {
        self.drop_snapshots_from(0);
        let reason = collect::message(&self.memory.header().end);
        self.binding.become_lazy(&self.program, reason);
        if self.server.take().is_some() {
            let Self { program, binding, streams, memory, .. } = self;
            self.server = Some(start_server(program, binding, streams, memory)?);
        }
        Ok(())
    }

    fn run_with<'a>(
        &'a mut self,
        plan: &'a Plan,
        stack_request: StackRequest<'_>,
        tracing: TracingRequest<'_>,
        mut keep: Option<&mut TraceCollector<'_>>,
    ) -> Result<Run<'a>, Error> {
        let serve = self.settings.serve;
        let threads = self.settings.threads;
        let busy_waits = self.settings.busy_waits;
        let mode = RunMode { stack_request, serve, tracing, threads, busy_waits, ..RunMode::default() };
        // Stacks and instructions are captured only by a run from the beginning.
        let whole = stack_request != StackRequest::default() || tracing.how != Tracing::Off;
        let mut from = if whole { None } else { self.nearest(plan) };
        if let Some(at) = from {
            let resumed = self.snapshots[at].points();
            let mode = RunMode { resumed: resumed as u64, ..mode };
            self.memory.prepare(&snapshot::rest(plan, resumed), mode, &self.program.path)?;
            from = (self.memory.header().regions.total <= self.snapshots[at].room).then_some(at);
        }
        if from.is_none() {
            self.memory.prepare(plan, mode, &self.program.path)?;
        }
        self.reset_streams(from)?;
        self.is_silent = false;
        let rewind = from.is_some() && self.settings.rewind && self.rewinding.is_worth_it();
        let Self { program, binding, settings, memory, streams, server, snapshots, rewinding, .. } =
            &mut *self;
        let made = &memory.header().process;
        let process = match (from, server) {
            (Some(at), _) => Process::serve(snapshots[at].server_process.service(), made, rewind),
            (None, Some(server)) => Process::serve(server.service(), made, false),
            (None, None) => Process::start(Launch { program, binding, streams, memory: memory.fd() }),
        };
        let watch =
            RunMonitor { settings, memory, streams, limit: Duration::from_millis(plan.limits.millis) };
        let mut awaits_next_run = false;
        let ended = process.and_then(|mut process| {
            let ended = match keep.as_deref_mut() {
                None => watch.wait_for_end(&mut process),
                Some(keep) => {
                    keep.beside(memory, || watch.wait_for_end(&mut process)).and_then(|ended| ended)
                }
            };
            awaits_next_run = process.awaits_next_run();
            if let (Some(at), true) = (from, rewind) {
                rewinding.record(at, process.id(), awaits_next_run);
            }
            ended
        });
        let (status, stopped) = match (ended, from) {
            (Ok((status, None)), Some(_)) if rewind && status.signal() == Some(NOT_ALLOWED) => {
                // It made a system call that cannot be undone: repeat the run in a process that is not rewound.
                return self.run_with(plan, stack_request, tracing, None);
            }
            (Err(Error::NotServing), Some(at)) => {
                // The result of a run does not depend on the snapshot.
                self.discard_snapshot(at);
                return self.run_with(plan, stack_request, tracing, None);
            }
            (Err(error), None) => {
                let Self { server, streams, .. } = &mut *self;
                return Err(match server {
                    Some(server) => not_attached(error, &mut server.child, streams),
                    None => error,
                });
            }
            (ended, _) => ended?,
        };

        if self.memory.header().end.kind == EndKind::NeedsLazyBinding && self.binding == Binding::Eager {
            self.bind_lazily()?;
            return self.run_with(plan, stack_request, tracing, keep);
        }
        let output =
            Output { stdout: contents(&self.streams.stdout), stderr: contents(&self.streams.stderr) };
        self.is_silent = awaits_next_run && output.stdout.is_empty() && output.stderr.is_empty();
        let run = Run { executor: self, plan, status, stopped, rewound: awaits_next_run, output };
        let header = run.executor.memory.header();
        match header.end.kind {
            EndKind::Refused => Err(Error::Refused(collect::message(&header.end))),
            EndKind::Internal => Err(Error::Internal(collect::message(&header.end))),
            _ if !run.executor.memory.attached() && stopped.is_none() => Err(Error::NotAttached {
                status: run.status.to_string(),
                output: String::from_utf8_lossy(&run.output.stderr).trim().to_owned(),
            }),
            _ => Ok(run),
        }
    }
}

/// SIGSYS: ends a process that is to be rewound and makes a system call that cannot be undone.
const NOT_ALLOWED: i32 = 31;

/// Decides whether to rewind processes. A failed attempt costs more than a fork, so after a failure the next runs fork
/// instead. The pause doubles with each failure.
#[derive(Debug, Default)]
struct RewindPolicy {
    /// Runs left in the current pause.
    pause: u32,
    /// Length of the pause after the next failure.
    pause_after_failure: u32,
    /// Snapshot and process id that should make the next run, if the process could be rewound.
    next: Option<(usize, i32)>,
}

impl RewindPolicy {
    const MAX_PAUSE: u32 = 1 << 12;

    fn is_worth_it(&mut self) -> bool {
        let now = self.pause == 0;
        self.pause = self.pause.saturating_sub(1);
        if !now {
            self.next = None;
        }
        now
    }

    /// Records which process made the run from a snapshot, and whether it stays for the next run.
    fn record(&mut self, from: usize, process: Option<i32>, awaits_next_run: bool) {
        // The previous process should have stayed for this run but ended.
        let failed = self.next.take().is_some_and(|(at, next)| at == from && Some(next) != process);
        if awaits_next_run && !failed {
            self.pause_after_failure /= 2;
        } else {
            self.pause_after_failure = (self.pause_after_failure * 2 + 1).min(Self::MAX_PAUSE);
            self.pause = self.pause_after_failure;
        }
        self.next = process.filter(|_| awaits_next_run && !failed).map(|process| (from, process));
    }

    /// Forgets the expected process, because the next run uses another one.
    fn reset(&mut self) {
        self.next = None;
    }
}

/// Which instructions to trace, and how.
#[derive(Clone, Copy)]
pub struct InstructionTraceOptions<'a> {
    /// The tracing method.
    pub how: Tracing,
    /// Paths of the modules whose instructions are traced.
    pub modules: &'a [String],
    /// For each thread the number of events after which it is no longer traced; empty to trace all.
    pub until: &'a [u64],
    /// Functions at which the trace of a thread pauses until the thread unwinds.
    pub pauses: &'a [u64],
    /// Limit on the bytes of the compressed trace.
    pub bytes: u64,
    /// Called with the number of words so far.
    pub progress: WordProgress<'a>,
}

impl std::fmt::Debug for InstructionTraceOptions<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Instructions")
            .field("how", &self.how)
            .field("until", &self.until)
            .finish_non_exhaustive()
    }
}

/// Collects the instruction trace of a run.
struct TraceCollector<'a> {
    limit: u64,
    progress: WordProgress<'a>,
    steps: &'a mut CompressedSteps,
}

impl TraceCollector<'_> {
    /// Collects the trace on another thread while `wait` waits for the program.
    fn beside<R>(&mut self, memory: &SharedMemory, wait: impl FnOnce() -> R) -> Result<R, Error> {
        let (written, ended) = (memory.live_trace(), AtomicBool::new(false));
        let Self { limit, progress, .. } = *self;
        std::thread::scope(|scope| {
            let taking = std::thread::Builder::new()
                .spawn_scoped(scope, || CompressedSteps::take(&written, &ended, limit, progress))
                .map_err(|cause| Error::System { action: "cannot start a thread", cause })?;
            let waited = wait();
            ended.store(true, Ordering::Release);
            *self.steps = taking.join().unwrap_or_default();
            Ok(waited)
        })
    }
}

/// Replaces this process with the program, run by this plan on kernel threads, for the debugger that started this
/// process. Returns only if that fails.
#[must_use]
pub fn become_debuggee(program: &Program, plan: &Plan) -> Error {
    let prepared = || {
        raise_descriptor_limit()?;
        let streams = streams(program)?;
        let failed = |cause| Error::System { action: "cannot reset the streams", cause };
        (&streams.stdin).rewind().map_err(failed)?;
        let binding = Binding::of(program)?;
        let mut memory = SharedMemory::new(program)?;
        let mode = RunMode { threads: ThreadBackend::Kernel, debugged: true, ..RunMode::default() };
        memory.prepare(plan, mode, &program.path)?;
        Ok((streams, binding, memory))
    };
    match prepared() {
        Ok((streams, binding, memory)) => {
            replace(Launch { program, binding: &binding, streams: &streams, memory: memory.fd() })
        }
        Err(error) => error,
    }
}

/// Starts the program as a server.
fn start_server(
    program: &Program,
    binding: &Binding,
    streams: &Streams,
    memory: &mut SharedMemory,
) -> Result<Server, Error> {
    memory.prepare(&Plan::default(), RunMode { serve: true, ..RunMode::default() }, &program.path)?;
    Server::start(Launch { program, binding, streams, memory: memory.fd() })
}

/// Creates a program's streams and writes its standard input.
fn streams(program: &Program) -> Result<Streams, Error> {
    let mut stdin = memory_file(c"standard input")?;
    let failed = |cause| Error::System { action: "cannot store the standard input", cause };
    stdin.write_all(&program.stdin).map_err(failed)?;
    Ok(Streams {
        stdin,
        stdout: append_only(memory_file(c"standard output")?),
        stderr: append_only(memory_file(c"standard error")?),
    })
}

/// A finished run whose instructions were traced.
#[derive(Debug)]
pub struct InstructionTrace<'a> {
    /// The run itself.
    pub run: Run<'a>,
    steps: CompressedSteps,
}

impl InstructionTrace<'_> {
    /// Returns the schedule trace, as for any run.
    #[must_use]
    pub fn schedule_trace(&self) -> Trace {
        self.run.trace_with(self.run.output.clone())
    }

    /// Returns the number of words of the trace; [`unsnarl_wire::StepWord`] describes them.
    #[must_use]
    pub fn words(&self) -> u64 {
        self.steps.len()
    }

    /// Returns the compressed size in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.steps.bytes()
    }

    /// Reads the words of a chunk and the first [`unsnarl_wire::OVERLAP_WORDS`] of the next.
    pub fn read(&self, chunk: usize, into: &mut Vec<u64>) {
        self.steps.read(chunk, into);
    }
}

/// Replaces the error by the program's own output if the program ended before it could serve.
fn not_attached(error: Error, program: &mut Child, streams: &Streams) -> Error {
    match error {
        Error::NotServing => {
            let status = program.wait().map_or_else(|error| error.to_string(), |status| status.to_string());
            let output = String::from_utf8_lossy(&contents(&streams.stderr)).trim().to_owned();
            Error::NotAttached { status, output }
        }
        other => other,
    }
}

/// The limit at which a run was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LimitReached {
    /// Real time.
    Time(TimeoutActivity),
    /// Output.
    Output,
    /// Memory.
    Memory,
}

/// Activity of a run when its time was up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimeoutActivity {
    /// It reached schedule points regularly.
    Points,
    /// It had not reached a schedule point for long, and was running.
    Running,
    /// It had not reached a schedule point for long, and was waiting in the kernel.
    Waiting,
}

/// Supervises a running target.
struct RunMonitor<'a> {
    settings: &'a Settings,
    memory: &'a SharedMemory,
    streams: &'a Streams,
    limit: Duration,
}

impl RunMonitor<'_> {
    /// Waits for the end and forwards output. Returns the exit status, and the limit at which the run was stopped, if
    /// it was.
    fn wait_for_end(&self, process: &mut Process<'_>) -> Result<(ExitStatus, Option<LimitReached>), Error> {
        const TICK: Duration = Duration::from_millis(50);
        /// Time without a schedule point after which a run is checked for spinning; shorter after a run was found
        /// spinning.
        const STALLED: Duration = Duration::from_millis(300);
        const STALLED_AGAIN: Duration = Duration::from_millis(10);
        const LOOK: Duration = Duration::from_millis(2);
        let begin = Instant::now();
        let mut echo = OutputForwarder::default();
        let mut points = (0, begin);
        let (mut stalled, mut looked) = (STALLED, false);
        // Traced runs are slow and must not be interrupted.
        let watched =
            self.settings.threads == ThreadBackend::Fibers && self.memory.header().plan.tracing == 0;
        let Settings { memory_limit, interrupt, until, .. } = self.settings;
        let interrupted = || {
            interrupt.as_ref().is_some_and(|flag| flag.load(Ordering::Relaxed))
                || until.is_some_and(|until| Instant::now() >= until)
        };
        if self.settings.busy_waits {
            process.poll_for_end();
        }
        loop {
            let left = self.limit.saturating_sub(begin.elapsed());
            let tick = if looked || stalled == STALLED_AGAIN { LOOK } else { TICK };
            let waited = process.wait(left.min(tick))?;
            if self.settings.echo {
                echo.forward(self.streams);
            }
            let reached = self.memory.header().events.load(Ordering::Relaxed);
            if reached != points.0 {
                if looked && reached == points.0 + 1 {
                    stalled = STALLED_AGAIN;
                }
                (points, looked) = ((reached, Instant::now()), false);
            }
            if watched && matches!(waited, WaitResult::StillRunning) && points.1.elapsed() >= stalled {
                process.request_spin_check();
                looked = true;
            }
            match waited {
                _ if interrupted() => return Err(Error::Interrupted),
                WaitResult::Ended(status) => return Ok((status, None)),
                WaitResult::StillRunning if begin.elapsed() >= self.limit => {
                    let doing = match points.1.elapsed() {
                        short if short < self.limit / 4 => TimeoutActivity::Points,
                        _ if process.is_running() => TimeoutActivity::Running,
                        _ => TimeoutActivity::Waiting,
                    };
                    return process.stop().map(|status| (status, Some(LimitReached::Time(doing))));
                }
                WaitResult::StillRunning if self.too_much_output() => {
                    return process.stop().map(|status| (status, Some(LimitReached::Output)));
                }
                WaitResult::StillRunning
                    if memory_limit.is_some_and(|limit| self.own_memory(process) > limit) =>
                {
                    return process.stop().map(|status| (status, Some(LimitReached::Memory)));
                }
                WaitResult::StillRunning => {}
            }
        }
    }

    /// Returns the bytes of memory of the run, without the pages saved for rewinding.
    fn own_memory(&self, process: &Process<'_>) -> u64 {
        let saved_pages = self.memory.header().saved_pages.load(Ordering::Relaxed);
        process.memory().saturating_sub(u64::from(saved_pages) * 4096)
    }

    fn too_much_output(&self) -> bool {
        let size = |stream: &File| stream.metadata().map_or(0, |m| m.len());
        self.settings
            .output_limit
            .is_some_and(|limit| size(&self.streams.stdout) + size(&self.streams.stderr) > limit)
    }
}

impl Run<'_> {
    /// Returns whether the program ended by itself with status 0 and without warnings.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        let header = self.executor.memory.header();
        self.status.success()
            && matches!(header.end.kind, EndKind::Unknown | EndKind::Exit)
            && self.executor.memory.warnings().is_empty()
            && !self.executor.memory.threads().iter().skip(1).any(|t| t.joined_or_detached == 0)
    }

    /// Returns whether the run resumed from a snapshot.
    #[must_use]
    pub fn is_resumed(&self) -> bool {
        self.executor.memory.header().plan.resumed > 0
    }

    /// Returns whether the process was rewound after the run.
    #[must_use]
    pub fn is_rewound(&self) -> bool {
        self.rewound
    }

    /// Returns the number of events.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.executor.memory.events().len() as u64
    }

    /// Returns the number of events up to the creation of the second thread.
    #[must_use]
    pub fn single_thread_points(&self) -> u64 {
        let events = self.executor.memory.events();
        events.iter().position(|event| event.op() == Some(Op::Create)).map_or(0, |create| create as u64 + 1)
    }

    /// Returns the number of events after the program's first checkpoint; all if there is none.
    #[must_use]
    pub fn points(&self) -> u64 {
        let events = self.executor.memory.events();
        let checkpoint = events.iter().position(|event| event.op() == Some(Op::Checkpoint));
        events.len() as u64 - checkpoint.map_or(0, |number| number as u64 + 1)
    }

    /// Returns a hash that is equal for runs of the same schedule.
    #[must_use]
    pub fn schedule_hash(&self) -> u64 {
        self.executor.memory.events().iter().fold(0, |hash: u64, event| {
            (hash.rotate_left(5) ^ event.pc() ^ u64::from(event.thread().0) << 48)
                .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        })
    }

    /// Returns the conflicts that were found, if the plan asked for them, and the modules of their sites.
    #[must_use]
    pub fn conflicts(&self) -> (Vec<Conflict>, Vec<Module>) {
        let modules = collect::modules(&self.executor.memory, &self.executor.program);
        (collect::conflicts(&self.executor.memory, &collect::SiteTable::new(&modules)), modules)
    }

    /// Returns the enabled threads at each event, if the plan asked for them.
    #[must_use]
    pub fn choices(&self) -> &[Choices] {
        self.executor.memory.choices()
    }

    /// Returns the complete trace.
    #[must_use]
    pub fn trace(mut self) -> Trace {
        let output = std::mem::take(&mut self.output);
        self.trace_with(output)
    }

    fn trace_with(&self, output: Output) -> Trace {
        let Executor { memory, files, program, binding, .. } = self.executor;
        let end = (self.status, self.stopped);
        let mut trace = collect::trace(memory, &mut files.borrow_mut(), program, self.plan, end, output);
        trace.program_warnings.extend(binding.warning());
        trace
    }

    /// Returns where the run diverged from its plan, if it did.
    #[must_use]
    pub fn divergence(&self) -> Option<Divergence> {
        collect::divergence(&self.executor.memory, &self.executor.program, self.plan)
    }

    /// Returns whether the run reached the end of a plan that stops there.
    #[must_use]
    pub fn reached_plan_end(&self) -> bool {
        self.executor.memory.header().end.kind == EndKind::PlanEnd
    }
}

fn contents(stream: &File) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut room = [0; 4096];
    // Read errors end the loop: a memory file does not fail, and a short read occurs only at its end.
    while let Ok(read @ 1..) = stream.read_at(&mut room, bytes.len() as u64) {
        bytes.extend_from_slice(&room[..read]);
        if read < room.len() {
            break;
        }
    }
    bytes
}

/// Forwards output to our own streams as it comes.
#[derive(Default)]
struct OutputForwarder {
    stdout: u64,
    stderr: u64,
}

impl OutputForwarder {
    fn forward(&mut self, streams: &Streams) {
        copy_from(&streams.stdout, &mut self.stdout, &mut std::io::stdout());
        copy_from(&streams.stderr, &mut self.stderr, &mut std::io::stderr());
    }
}

fn copy_from(stream: &File, at: &mut u64, to: &mut dyn Write) {
    let mut buffer = [0; 16 << 10];
    while let Ok(read) = stream.read_at(&mut buffer, *at)
        && read > 0
    {
        *at += read as u64;
        // A closed reader on our side must not affect the program.
        let _ = to.write_all(&buffer[..read]);
    }
    let _ = to.flush();
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns how many of `runs` runs use rewinding. `awaits_next_run` says whether the nth attempt succeeds.
    fn attempts(runs: usize, mut awaits_next_run: impl FnMut(usize) -> bool) -> usize {
        let (mut rewinding, mut attempts) = (RewindPolicy::default(), 0);
        for _ in 0..runs {
            if rewinding.is_worth_it() {
                rewinding.record(0, Some(1), awaits_next_run(attempts));
                attempts += 1;
            }
        }
        attempts
    }

    #[test]
    fn rewinding_is_tried_less_often_after_failures() {
        assert_eq!(attempts(1000, |_| true), 1000);
        assert!(attempts(1000, |_| false) < 10);
        // One failure in ten costs a few forks.
        assert!(attempts(1000, |nth| nth % 10 != 9) > 800);
    }

    #[test]
    fn process_that_failed_to_rewind_counts_as_not_rewindable() {
        let mut rewinding = RewindPolicy::default();
        rewinding.record(0, Some(1), true);
        rewinding.record(0, Some(2), true);
        assert!(!rewinding.is_worth_it());
        let mut rewinding = RewindPolicy::default();
        rewinding.record(0, Some(1), true);
        // From another snapshot, another process is expected.
        rewinding.record(1, Some(2), true);
        assert!(rewinding.is_worth_it());
    }
}
