//! One plan in, one run out.

use crate::{
    Error,
    binding::Binding,
    collect::{self, Files},
    memory::{CallsWish, Memory, Special, TracingWish, append_only, memory_file},
    process::{Launch, Process, Server, Streams, Waited, Waiting, replace},
    snapshot::{self, Snapshot},
    steps::{Progress, Steps},
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
use unsnarl_wire::{Choices, EndKind, ROOM_FOR_PLANS, Tracing, Wanted};

/// How runs are made, apart from the plan.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Pass the program's output on while it runs.
    pub echo: bool,
    /// Load the program once and fork it for each run: for many runs.
    pub serve: bool,
    /// Rewind processes that go on from a snapshot, and have them make many runs; what comes of a plan does not depend on it.
    pub rewind: bool,
    /// There are processors to spare: who waits for another process looks for it a while before it sleeps.
    pub eager: bool,
    /// Bytes of output after which a run is stopped; none for no limit.
    pub output_limit: Option<u64>,
    /// Bytes of memory of its own at which a run is stopped; none for no limit.
    pub memory_limit: Option<u64>,
    /// Set to true, it ends the run in progress.
    pub interrupt: Option<Arc<AtomicBool>>,
    /// The moment that ends the run in progress, as an interrupt does.
    pub until: Option<Instant>,
    /// What the program's threads run on; what comes of a plan does not depend on it.
    pub threads: Threads,
}

/// What the program's threads run on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Threads {
    /// All of them on one kernel thread: fast, and the program can be kept in the middle of a run.
    #[default]
    Fibers,
    /// Each on a kernel thread of its own, of which one runs at a time.
    Kernel,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            echo: false,
            serve: false,
            rewind: true,
            eager: false,
            output_limit: Some(64 << 20),
            memory_limit: Some(4 << 30),
            interrupt: None,
            until: None,
            threads: Threads::Fibers,
        }
    }
}

/// Runs one program, again and again, each time by a plan.
pub struct Executor {
    program: Program,
    binding: Binding,
    settings: Settings,
    memory: Memory,
    streams: Streams,
    /// Runs that wait for others to go on from there. What the first one was forked for, the others are forked from.
    snapshots: Vec<Snapshot>,
    server: Option<Server>,
    rewinding: Rewinding,
    /// The last run wrote nothing, and left nobody behind who could.
    is_silent: bool,
    files: RefCell<Files>,
}

impl std::fmt::Debug for Executor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Executor").field("program", &self.program.path).finish_non_exhaustive()
    }
}

/// A finished run; what it left is still in shared memory.
#[derive(Debug)]
pub struct Run<'a> {
    executor: &'a Executor,
    plan: &'a Plan,
    status: ExitStatus,
    stopped: Option<Stopped>,
    rewound: bool,
    /// What the program wrote.
    pub output: Output,
}

impl Executor {
    /// Gets ready to run the program.
    ///
    /// # Errors
    /// If the system refuses memory.
    pub fn new(program: Program, settings: Settings) -> Result<Self, Error> {
        let streams = streams(&program)?;
        let binding = Binding::of(&program)?;
        let mut memory = Memory::new(&program)?;
        let server = if settings.serve {
            // Started here and now: the system ends it when the thread that started it ends.
            memory.prepare(&Plan::default(), Special { serve: true, ..Special::default() }, &program.path)?;
            let launch =
                Launch { program: &program, binding: &binding, streams: &streams, memory: memory.fd() };
            Some(Server::start(launch)?)
        } else {
            None
        };
        let (snapshots, rewinding) = (Vec::new(), Rewinding::default());
        let files = RefCell::default();
        Ok(Self { program, binding, memory, streams, snapshots, server, rewinding, is_silent: false, files, settings })
    }

    /// The program.
    #[must_use]
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Runs the program by this plan.
    ///
    /// # Errors
    /// If the run could not be made or the program not be controlled. A failure of the program is not an
    /// error: it is the run's outcome.
    pub fn run<'a>(&'a mut self, plan: &'a Plan) -> Result<Run<'a>, Error> {
        self.run_for(plan, CallsWish::default(), TracingWish::default(), None)
    }

    /// The calls that led to both sides of a conflict that the run of this plan had, innermost first: from
    /// another run of the same plan.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn calls(
        &mut self,
        plan: &Plan,
        conflict: &Conflict,
        modules: &[Module],
    ) -> Result<[Vec<Site>; 2], Error> {
        let sides = conflict.sides.each_ref().map(|side| Wanted {
            pc: modules[side.site.module.0 as usize].base + side.site.offset + 1,
            thread: side.thread.0.into(),
        });
        let wish = CallsWish { sides, ..CallsWish::default() };
        self.run_for(plan, wish, TracingWish::default(), None)?;
        let Self { memory, files, program, .. } = self;
        Ok(collect::calls(memory, &mut files.borrow_mut(), program))
    }

    /// The calls that led to the events of these numbers in a run of this plan, innermost first, as far as they can be
    /// told: from another run of the same plan.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn calls_of(&mut self, plan: &Plan, events: &[u64]) -> Result<Vec<(u64, Vec<Site>)>, Error> {
        // Whoever looks for conflicts sees every event.
        let plan = Plan { conflicts: true, ..plan.clone() };
        let wish = CallsWish { events, ..CallsWish::default() };
        self.run_for(&plan, wish, TracingWish::default(), None)?;
        let Self { memory, files, program, .. } = self;
        Ok(collect::calls_of(memory, &mut files.borrow_mut(), program))
    }

    /// Keeps the program as it is after so many points of this plan: runs of plans that begin with them go on from
    /// there. For plans that are to be run often and whose beginning takes its time; what comes of a run does not
    /// depend on it. If that is not possible, the answer is the reason.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn keep(&mut self, plan: &Plan, points: usize) -> Result<Result<(), String>, Error> {
        if self.settings.threads == Threads::Kernel {
            return Ok(Err("of kernel threads a fork takes only one along".into()));
        }
        if self.snapshots.first().is_some_and(|root| root.waiting.is_gone()) {
            self.lose(0);
        }
        let first = snapshot::first(plan, points);
        // Those that do not lie on the way any more are of no use to those that do.
        if !self.snapshots.first().is_some_and(|root| root.is_on_the_way_of(&first)) {
            self.forget(0);
        }
        if self.snapshots.iter().any(|s| s.points() == points && s.is_on_the_way_of(&first)) {
            return Ok(Ok(()));
        }
        if self.server.as_ref().is_some_and(|server| server.free.is_empty()) {
            self.forget(1);
        }
        let Some((number, channel)) = self.server.as_mut().and_then(|server| server.free.pop()) else {
            return Ok(Err("the program is started anew for each run".into()));
        };
        let from_root = self.snapshots.first().is_some_and(|root| root.points() < points);
        let resumed = if from_root { self.snapshots[0].points() } else { 0 };
        let special =
            Special { serve: true, snapshot: number, resumed: resumed as u64, ..Special::default() };
        self.memory.prepare(&snapshot::rest(&first, resumed), special, &self.program.path)?;
        self.is_silent = false;
        self.reset_streams(from_root.then_some(0))?;
        let Self { streams, snapshots, server: Some(server), .. } = &mut *self else {
            unreachable!("the channel is the server's")
        };
        let asked = if from_root { snapshots[0].waiting.service() } else { server.service() };
        let most = Duration::from_millis(plan.limits.millis);
        let started = match Waiting::start(asked, (number, channel), most) {
            Err(Error::NotServing) if from_root => {
                self.lose(0);
                return Ok(Err("somebody ended the process that waited there".into()));
            }
            started => started.map_err(|error| not_attached(error, &mut server.child, streams))?,
        };
        match started {
            Ok(waiting) => {
                let room = self.memory.header().regions.total + ROOM_FOR_PLANS;
                let streams = self.streams_so_far()?;
                let alone = self.memory.threads().len() <= 2
                    && self.memory.events().last().is_some_and(|event| event.op() == Some(Op::Create));
                self.rewinding.begin_again();
                self.snapshots.push(Snapshot::new(waiting, (first, alone), room, streams));
                Ok(Ok(()))
            }
            Err(free) => {
                server.free.push(free);
                let said = collect::message(&self.memory.header().end);
                Ok(Err(if said.is_empty() { "the run does not come that far".into() } else { said }))
            }
        }
    }

    /// Lets the snapshots from this one on end.
    fn forget(&mut self, from: usize) {
        self.rewinding.begin_again();
        let from = from.min(self.snapshots.len());
        for snapshot in self.snapshots.drain(from..).rev() {
            let free = snapshot.waiting.end();
            if let Some(server) = &mut self.server {
                server.free.push(free);
            }
        }
    }

    /// Somebody ended this snapshot.
    fn lose(&mut self, at: usize) {
        let free = self.snapshots.remove(at).waiting.lost();
        if let Some(server) = &mut self.server {
            server.free.push(free);
        }
        self.forget(0);
    }

    /// The snapshot from which a run of this plan goes on.
    fn nearest(&self, plan: &Plan) -> Option<usize> {
        let useful = |&at: &usize| self.snapshots[at].is_on_the_way_of(plan);
        (0..self.snapshots.len()).filter(useful).max_by_key(|&at| self.snapshots[at].points())
    }

    /// The streams as they are before main, or as this snapshot left them.
    fn reset_streams(&self, snapshot: Option<usize>) -> Result<(), Error> {
        let failed = |cause| Error::System { what: "cannot reset the streams", cause };
        let nothing = snapshot::Streams::default();
        let then = snapshot.map_or(&nothing, |at| &self.snapshots[at].streams);
        let Streams { stdout, stderr, .. } = &self.streams;
        (&self.streams.stdin).seek(SeekFrom::Start(then.read)).map_err(failed)?;
        for (mut stream, written) in [(stdout, &then.stdout), (stderr, &then.stderr)] {
            if !self.is_silent || !written.is_empty() {
                stream.set_len(0).and_then(|()| stream.write_all(written)).map_err(failed)?;
            }
        }
        Ok(())
    }

    fn streams_so_far(&self) -> Result<snapshot::Streams, Error> {
        let failed = |cause| Error::System { what: "cannot read the streams", cause };
        Ok(snapshot::Streams {
            read: (&self.streams.stdin).stream_position().map_err(failed)?,
            stdout: contents(&self.streams.stdout),
            stderr: contents(&self.streams.stderr),
        })
    }

    /// Runs the program by this plan and has its instructions traced.
    ///
    /// # Errors
    /// As [`run`](Self::run); also if there is no more room for the trace.
    pub fn trace<'a>(
        &'a mut self,
        plan: &'a Plan,
        wish: &Instructions<'_>,
    ) -> Result<InstructionTrace<'a>, Error> {
        // Only what is touched is there, and what was taken away is not.
        const UNCOMPRESSED: u64 = 256;
        const MOST_WORDS: u64 = 1 << 37;
        let &Instructions { how, modules, until, pauses, bytes, progress } = wish;
        let words = (bytes / 8).saturating_mul(UNCOMPRESSED).min(MOST_WORDS);
        let mut steps = Steps::default();
        let mut keep = Keep { limit: bytes, progress, steps: &mut steps };
        let wish = TracingWish { how, words, modules, until, pauses };
        let run = self.run_for(plan, CallsWish::default(), wish, Some(&mut keep))?;
        if steps.bytes() > bytes {
            // It ended before it was told.
            return Err(Error::Refused(unsnarl_wire::TRACE_FULL.into()));
        }
        Ok(InstructionTrace { run, steps })
    }

    fn run_for<'a>(
        &'a mut self,
        plan: &'a Plan,
        calls: CallsWish<'_>,
        tracing: TracingWish<'_>,
        keep: Option<&mut Keep<'_>>,
    ) -> Result<Run<'a>, Error> {
        let serve = self.settings.serve;
        let threads = self.settings.threads;
        let eager = self.settings.eager;
        let special = Special { calls, serve, tracing, threads, eager, ..Special::default() };
        // Calls and instructions are seen where they are made.
        let whole = calls != CallsWish::default() || tracing.how != Tracing::Off;
        let mut from = if whole { None } else { self.nearest(plan) };
        if let Some(at) = from {
            let resumed = self.snapshots[at].points();
            let special = Special { resumed: resumed as u64, ..special };
            self.memory.prepare(&snapshot::rest(plan, resumed), special, &self.program.path)?;
            from = (self.memory.header().regions.total <= self.snapshots[at].room).then_some(at);
        }
        if from.is_none() {
            self.memory.prepare(plan, special, &self.program.path)?;
        }
        self.reset_streams(from)?;
        self.is_silent = false;
        let rewind = from.is_some() && self.settings.rewind && self.rewinding.is_worth_it();
        let Self { program, binding, settings, memory, streams, server, snapshots, rewinding, .. } = &mut *self;
        let made = &memory.header().process;
        let process = match (from, server) {
            (Some(at), _) => Process::serve(snapshots[at].waiting.service(), made, rewind),
            (None, Some(server)) => Process::serve(server.service(), made, false),
            (None, None) => Process::start(Launch { program, binding, streams, memory: memory.fd() }),
        };
        let watch = Watch { settings, memory, streams, limit: Duration::from_millis(plan.limits.millis) };
        let mut stays = false;
        let ended = process.and_then(|mut process| {
            let ended = match keep {
                None => watch.until_end(&mut process),
                Some(keep) => keep.beside(memory, || watch.until_end(&mut process)),
            };
            stays = process.stays();
            if let (Some(at), true) = (from, rewind) {
                rewinding.learn(at, process.id(), stays);
            }
            ended
        });
        let (status, stopped) = match (ended, from) {
            (Ok((status, None)), Some(_)) if rewind && status.signal() == Some(NOT_ALLOWED) => {
                // It wanted more of the kernel than can be undone: once more, by a process that ends with the run.
                return self.run_for(plan, calls, tracing, None);
            }
            (Err(Error::NotServing), Some(at)) => {
                // What comes of a run does not depend on it.
                self.lose(at);
                return self.run_for(plan, calls, tracing, None);
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

        let output =
            Output { stdout: contents(&self.streams.stdout), stderr: contents(&self.streams.stderr) };
        self.is_silent = stays && output.stdout.is_empty() && output.stderr.is_empty();
        let run = Run { executor: self, plan, status, stopped, rewound: stays, output };
        let header = run.executor.memory.header();
        match header.end.kind {
            EndKind::Refused => Err(Error::Refused(collect::message(&header.end))),
            EndKind::Internal => Err(Error::Internal(collect::message(&header.end))),
            _ if !run.executor.memory.attached() && stopped.is_none() => Err(Error::NotAttached {
                status: run.status.to_string(),
                said: String::from_utf8_lossy(&run.output.stderr).trim().to_owned(),
            }),
            _ => Ok(run),
        }
    }
}

/// What ends a process that is to be rewound and asks the kernel for what cannot be undone.
const NOT_ALLOWED: i32 = 31;

/// Whether to have processes rewound. One that was not has cost more than a fork: then it is left for some runs, and for more and more, as long as
/// nothing comes of it.
#[derive(Debug, Default)]
struct Rewinding {
    /// So many runs without.
    pause: u32,
    /// How many runs it is left for if it fails.
    doubt: u32,
    /// From which snapshot, and which process makes the next run, if it could be rewound.
    next: Option<(usize, i32)>,
}

impl Rewinding {
    const MOST: u32 = 1 << 12;

    fn is_worth_it(&mut self) -> bool {
        let now = self.pause == 0;
        self.pause = self.pause.saturating_sub(1);
        if !now {
            self.next = None;
        }
        now
    }

    /// This process made the run from that snapshot, and stays or not.
    fn learn(&mut self, from: usize, process: Option<i32>, stays: bool) {
        // The one before meant to stay, and could not.
        let failed = self.next.take().is_some_and(|(at, next)| at == from && Some(next) != process);
        if stays && !failed {
            self.doubt /= 2;
        } else {
            self.doubt = (self.doubt * 2 + 1).min(Self::MOST);
            self.pause = self.doubt;
        }
        self.next = process.filter(|_| stays && !failed).map(|process| (from, process));
    }

    /// The next process is another one in any case.
    fn begin_again(&mut self) {
        self.next = None;
    }
}

/// Which instructions are to be traced, and how.
#[derive(Clone, Copy)]
pub struct Instructions<'a> {
    /// By which means.
    pub how: Tracing,
    /// Those of the modules at these paths.
    pub modules: &'a [String],
    /// Of each thread until there are so many events; empty for all threads, for as long as they run.
    pub until: &'a [u64],
    /// Not from where a thread comes to one of these functions until it unwinds.
    pub pauses: &'a [u64],
    /// Into at most so many bytes, when compressed.
    pub bytes: u64,
    /// Told how far it is.
    pub progress: Progress<'a>,
}

impl std::fmt::Debug for Instructions<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Instructions")
            .field("how", &self.how)
            .field("until", &self.until)
            .finish_non_exhaustive()
    }
}

/// What becomes of the instruction trace of a run.
struct Keep<'a> {
    limit: u64,
    progress: Progress<'a>,
    steps: &'a mut Steps,
}

impl Keep<'_> {
    /// Takes the trace away while the program is waited for.
    fn beside<R>(&mut self, memory: &Memory, wait: impl FnOnce() -> R) -> R {
        let (written, ended) = (memory.written(), AtomicBool::new(false));
        let Self { limit, progress, .. } = *self;
        std::thread::scope(|scope| {
            let taking = scope.spawn(|| Steps::take(&written, &ended, limit, progress));
            let waited = wait();
            ended.store(true, Ordering::Release);
            *self.steps = taking.join().unwrap_or_default();
            waited
        })
    }
}

/// Goes on as the program, run by this plan on kernel threads, in the place of the calling program: for a debugger that
/// starts it so. Returns only if that is not possible.
#[must_use]
pub fn become_debuggee(program: &Program, plan: &Plan) -> Error {
    let prepared = || {
        let streams = streams(program)?;
        let failed = |cause| Error::System { what: "cannot reset the streams", cause };
        (&streams.stdin).rewind().map_err(failed)?;
        let binding = Binding::of(program)?;
        let mut memory = Memory::new(program)?;
        let special = Special { threads: Threads::Kernel, debugged: true, ..Special::default() };
        memory.prepare(plan, special, &program.path)?;
        Ok((streams, binding, memory))
    };
    match prepared() {
        Ok((streams, binding, memory)) => {
            replace(Launch { program, binding: &binding, streams: &streams, memory: memory.fd() })
        }
        Err(error) => error,
    }
}

/// A program's streams, with its standard input written down.
fn streams(program: &Program) -> Result<Streams, Error> {
    let mut stdin = memory_file(c"standard input")?;
    let failed = |cause| Error::System { what: "cannot keep the standard input", cause };
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
    steps: Steps,
}

impl InstructionTrace<'_> {
    /// What happened besides, as of any run.
    #[must_use]
    pub fn schedule_trace(&self) -> Trace {
        self.run.trace_with(self.run.output.clone())
    }

    /// How many words the trace has, as [`unsnarl_wire::StepWord`] describes them.
    #[must_use]
    pub fn words(&self) -> u64 {
        self.steps.len()
    }

    /// How many bytes they take as they are kept.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.steps.bytes()
    }

    /// Puts the words of a chunk there, and the first ones of the next, as [`unsnarl_wire::OVERLAP_WORDS`] says.
    pub fn read(&self, chunk: usize, into: &mut Vec<u64>) {
        self.steps.read(chunk, into);
    }
}

/// A program that does not come as far as serving says more itself.
fn not_attached(error: Error, program: &mut Child, streams: &Streams) -> Error {
    match error {
        Error::NotServing => {
            let status = program.wait().map_or_else(|error| error.to_string(), |status| status.to_string());
            let said = String::from_utf8_lossy(&contents(&streams.stderr)).trim().to_owned();
            Error::NotAttached { status, said }
        }
        other => other,
    }
}

/// Which limit a run was stopped at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stopped {
    /// Real time.
    Time(Doing),
    /// Output.
    Output,
    /// Memory.
    Memory,
}

/// What a run was doing when its time was up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doing {
    /// It came from schedule point to schedule point.
    Points,
    /// It had not come to one for long, and was running.
    Running,
    /// It had not come to one for long, and was waiting in the kernel.
    Waiting,
}

/// What to look after while a target runs.
struct Watch<'a> {
    settings: &'a Settings,
    memory: &'a Memory,
    streams: &'a Streams,
    limit: Duration,
}

impl Watch<'_> {
    /// Waits for the end, passing output on; why the run had to be stopped, if it had to.
    fn until_end(&self, process: &mut Process<'_>) -> Result<(ExitStatus, Option<Stopped>), Error> {
        const TICK: Duration = Duration::from_millis(50);
        /// From when on a run that comes to no point may be one that waits in a loop; sooner, if one did.
        const STALLED: Duration = Duration::from_millis(300);
        const STALLED_AGAIN: Duration = Duration::from_millis(10);
        const LOOK: Duration = Duration::from_millis(2);
        let begin = Instant::now();
        let mut echo = Echo::default();
        let mut points = (0, begin);
        let (mut stalled, mut looked) = (STALLED, false);
        // What is traced takes its time, and is not interrupted.
        let watched = self.settings.threads == Threads::Fibers && self.memory.header().plan.tracing == 0;
        let Settings { memory_limit, interrupt, until, .. } = self.settings;
        let interrupted = || {
            interrupt.as_ref().is_some_and(|flag| flag.load(Ordering::Relaxed))
                || until.is_some_and(|until| Instant::now() >= until)
        };
        if self.settings.eager {
            process.look_for_end();
        }
        loop {
            let left = self.limit.saturating_sub(begin.elapsed());
            let tick = if looked || stalled == STALLED_AGAIN { LOOK } else { TICK };
            let waited = process.wait(left.min(tick))?;
            if self.settings.echo {
                echo.pass_on(self.streams);
            }
            let reached = self.memory.header().events.load(Ordering::Relaxed);
            if reached != points.0 {
                if looked && reached == points.0 + 1 {
                    stalled = STALLED_AGAIN;
                }
                (points, looked) = ((reached, Instant::now()), false);
            }
            if watched && matches!(waited, Waited::NotYet) && points.1.elapsed() >= stalled {
                process.look_for_spin();
                looked = true;
            }
            match waited {
                _ if interrupted() => return Err(Error::Interrupted),
                Waited::Ended(status) => return Ok((status, None)),
                Waited::NotYet if begin.elapsed() >= self.limit => {
                    let doing = match points.1.elapsed() {
                        short if short < self.limit / 4 => Doing::Points,
                        _ if process.is_running() => Doing::Running,
                        _ => Doing::Waiting,
                    };
                    return process.stop().map(|status| (status, Some(Stopped::Time(doing))));
                }
                Waited::NotYet if self.too_much_output() => {
                    return process.stop().map(|status| (status, Some(Stopped::Output)));
                }
                Waited::NotYet if memory_limit.is_some_and(|limit| self.own_memory(process) > limit) => {
                    return process.stop().map(|status| (status, Some(Stopped::Memory)));
                }
                Waited::NotYet => {}
            }
        }
    }

    /// How many bytes of memory the run has, without what its process keeps to be rewound.
    fn own_memory(&self, process: &Process<'_>) -> u64 {
        let kept = self.memory.header().kept_pages.load(Ordering::Relaxed);
        process.memory().saturating_sub(u64::from(kept) * 4096)
    }

    fn too_much_output(&self) -> bool {
        let size = |stream: &File| stream.metadata().map_or(0, |m| m.len());
        self.settings
            .output_limit
            .is_some_and(|limit| size(&self.streams.stdout) + size(&self.streams.stderr) > limit)
    }
}

impl Run<'_> {
    /// Whether the program ended by itself with status 0 and nobody has anything to remark.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        let header = self.executor.memory.header();
        self.status.success()
            && matches!(header.end.kind, EndKind::Unknown | EndKind::Exit)
            && self.executor.memory.warnings().is_empty()
            && !self.executor.memory.threads().iter().skip(1).any(|t| t.let_go == 0)
    }

    /// Whether it went on from a snapshot.
    #[must_use]
    pub fn is_resumed(&self) -> bool {
        self.executor.memory.header().plan.resumed > 0
    }

    /// Whether its process was rewound after it, to make the next one.
    #[must_use]
    pub fn is_rewound(&self) -> bool {
        self.rewound
    }

    /// How many events it had.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.executor.memory.events().len() as u64
    }

    /// How many of them before there was a second thread.
    #[must_use]
    pub fn alone(&self) -> u64 {
        let events = self.executor.memory.events();
        events.iter().position(|event| event.op() == Some(Op::Create)).map_or(0, |create| create as u64 + 1)
    }

    /// How many of them the program's first checkpoint, if it came to one, leaves to a search.
    #[must_use]
    pub fn points(&self) -> u64 {
        let events = self.executor.memory.events();
        let checkpoint = events.iter().position(|event| event.op() == Some(Op::Checkpoint));
        events.len() as u64 - checkpoint.map_or(0, |number| number as u64 + 1)
    }

    /// A number that is the same for runs of the same schedule.
    #[must_use]
    pub fn schedule_hash(&self) -> u64 {
        self.executor.memory.events().iter().fold(0, |hash: u64, event| {
            (hash.rotate_left(5) ^ event.pc() ^ u64::from(event.thread().0) << 48)
                .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        })
    }

    /// The conflicts that were found, if they were looked for, and the modules that they are in.
    #[must_use]
    pub fn conflicts(&self) -> (Vec<Conflict>, Vec<Module>) {
        let modules = collect::modules(&self.executor.memory, &self.executor.program);
        (collect::conflicts(&self.executor.memory, &collect::Places::new(&modules)), modules)
    }

    /// For each event who could have run, if the plan asked for it.
    #[must_use]
    pub fn choices(&self) -> &[Choices] {
        self.executor.memory.choices()
    }

    /// All that happened.
    #[must_use]
    pub fn trace(mut self) -> Trace {
        let output = std::mem::take(&mut self.output);
        self.trace_with(output)
    }

    fn trace_with(&self, output: Output) -> Trace {
        let Executor { memory, files, program, binding, .. } = self.executor;
        let end = (self.status, self.stopped);
        let mut trace = collect::trace(memory, &mut files.borrow_mut(), program, self.plan, end, output);
        let main = trace.threads.first().map_or_else(Site::default, |main| main.start);
        trace.warnings.extend(binding.warning(main));
        trace
    }

    /// Where the run left its plan, if it did.
    #[must_use]
    pub fn divergence(&self) -> Option<Divergence> {
        collect::divergence(&self.executor.memory, &self.executor.program, self.plan)
    }

    /// Whether the run came to the end of a plan that says nothing of what follows.
    #[must_use]
    pub fn reached_plan_end(&self) -> bool {
        self.executor.memory.header().end.kind == EndKind::PlanEnd
    }
}

fn contents(stream: &File) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut room = [0; 4096];
    // What can be read is kept; a memory file does not fail, and gives less than asked for only at its end.
    while let Ok(read @ 1..) = stream.read_at(&mut room, bytes.len() as u64) {
        bytes.extend_from_slice(&room[..read]);
        if read < room.len() {
            break;
        }
    }
    bytes
}

/// Passes output on to our own streams as it comes.
#[derive(Default)]
struct Echo {
    stdout: u64,
    stderr: u64,
}

impl Echo {
    fn pass_on(&mut self, streams: &Streams) {
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
        // A reader that went away does not concern the program.
        let _ = to.write_all(&buffer[..read]);
    }
    let _ = to.flush();
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of so many runs, those that are asked of a process to be rewound; what becomes of it the nth time.
    fn asked(runs: usize, mut stays: impl FnMut(usize) -> bool) -> usize {
        let (mut rewinding, mut asked) = (Rewinding::default(), 0);
        for _ in 0..runs {
            if rewinding.is_worth_it() {
                rewinding.learn(0, Some(1), stays(asked));
                asked += 1;
            }
        }
        asked
    }

    #[test]
    fn processes_that_cannot_be_rewound_are_asked_less_and_less() {
        assert_eq!(asked(1000, |_| true), 1000);
        assert!(asked(1000, |_| false) < 10);
        // One failure in ten costs a few forks.
        assert!(asked(1000, |nth| nth % 10 != 9) > 800);
    }

    #[test]
    fn a_process_that_meant_to_stay_and_did_not_counts_as_one_that_cannot() {
        let mut rewinding = Rewinding::default();
        rewinding.learn(0, Some(1), true);
        rewinding.learn(0, Some(2), true);
        assert!(!rewinding.is_worth_it());
        let mut rewinding = Rewinding::default();
        rewinding.learn(0, Some(1), true);
        // From another snapshot it is another one.
        rewinding.learn(1, Some(2), true);
        assert!(rewinding.is_worth_it());
    }
}
