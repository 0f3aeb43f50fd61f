//! One plan in, one run out.

use crate::{
    Error,
    collect::{self, Files},
    memory::{Memory, append_only, memory_file},
    process::{Process, Server, Streams, Waited},
};
use std::{
    cell::RefCell,
    fs::File,
    io::{Read, Seek, Write},
    os::{fd::OwnedFd, unix::fs::FileExt},
    process::ExitStatus,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};
use unsnarl_model::{Conflict, Divergence, Module, Op, Output, Plan, Program, Site, Trace};
use unsnarl_wire::{Choices, EndKind, Wanted};

/// How runs are made, apart from the plan.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Pass the program's output on while it runs.
    pub echo: bool,
    /// Load the program once and fork it for each run: for many runs.
    pub serve: bool,
    /// Bytes of output after which a run is stopped; none for no limit.
    pub output_limit: Option<u64>,
    /// Bytes of memory of its own at which a run is stopped; none for no limit.
    pub memory_limit: Option<u64>,
    /// Set to true, it ends the run in progress.
    pub interrupt: Option<Arc<AtomicBool>>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            echo: false,
            serve: false,
            output_limit: Some(64 << 20),
            memory_limit: Some(4 << 30),
            interrupt: None,
        }
    }
}

/// Runs one program, again and again, each time by a plan.
pub struct Executor {
    program: Program,
    settings: Settings,
    memory: Memory,
    streams: Streams,
    server: Option<Server>,
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
    /// What the program wrote.
    pub output: Output,
}

impl Executor {
    /// Gets ready to run the program.
    ///
    /// # Errors
    /// If the system refuses memory.
    pub fn new(program: Program, settings: Settings) -> Result<Self, Error> {
        let mut stdin = File::from(memory_file(c"standard input")?);
        let failed = |cause| Error::System { what: "cannot keep the standard input", cause };
        stdin.write_all(&program.stdin).map_err(failed)?;
        let streams = Streams {
            stdin: stdin.into(),
            stdout: append_only(memory_file(c"standard output")?),
            stderr: append_only(memory_file(c"standard error")?),
        };
        let mut memory = Memory::new()?;
        let server = if settings.serve {
            // Started here and now: the system ends it when the thread that started it ends.
            memory.prepare(&Plan::default(), Default::default(), &program.path, true)?;
            Some(Server::start(&program, memory.fd(), &streams)?)
        } else {
            None
        };
        Ok(Self { program, memory, streams, server, files: RefCell::default(), settings })
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
        self.run_for(plan, Default::default())
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
        let wanted = conflict.sides.each_ref().map(|side| Wanted {
            pc: modules[side.site.module.0 as usize].base + side.site.offset + 1,
            thread: side.thread.0.into(),
        });
        self.run_for(plan, wanted)?;
        let Self { memory, files, program, .. } = self;
        Ok(collect::calls(memory, &mut files.borrow_mut(), program))
    }

    fn run_for<'a>(&'a mut self, plan: &'a Plan, wanted: [Wanted; 2]) -> Result<Run<'a>, Error> {
        self.memory.prepare(plan, wanted, &self.program.path, self.settings.serve)?;
        let failed = |cause| Error::System { what: "cannot reset the streams", cause };
        File::from(self.streams.stdin.try_clone().map_err(failed)?).rewind().map_err(failed)?;
        for stream in [&self.streams.stdout, &self.streams.stderr] {
            File::from(stream.try_clone().map_err(failed)?).set_len(0).map_err(failed)?;
        }
        let Self { program, settings, memory, streams, server, .. } = &mut *self;
        let mut process = match server {
            Some(server) => Process::serve(server).map_err(|error| not_attached(error, streams))?,
            None => Process::start(program, memory.fd(), streams)?,
        };
        let watch = Watch { settings, streams, limit: Duration::from_millis(plan.limits.millis) };
        let (status, stopped) = watch.until_end(&mut process)?;
        drop(process);

        let output =
            Output { stdout: contents(&self.streams.stdout), stderr: contents(&self.streams.stderr) };
        let run = Run { executor: self, plan, status, stopped, output };
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

/// A program that does not come as far as serving says more itself.
fn not_attached(error: Error, streams: &Streams) -> Error {
    match error {
        Error::NotServing(status) => {
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
    Time,
    /// Output.
    Output,
    /// Memory.
    Memory,
}

/// What to look after while a target runs.
struct Watch<'a> {
    settings: &'a Settings,
    streams: &'a Streams,
    limit: Duration,
}

impl Watch<'_> {
    /// Waits for the end, passing output on; why the run had to be stopped, if it had to.
    fn until_end(&self, process: &mut Process<'_>) -> Result<(ExitStatus, Option<Stopped>), Error> {
        const TICK: Duration = Duration::from_millis(50);
        let begin = Instant::now();
        let mut echo = Echo::default();
        let interrupted =
            || self.settings.interrupt.as_ref().is_some_and(|flag| flag.load(Ordering::Relaxed));
        let Settings { echo: echoes, output_limit, memory_limit, interrupt, .. } = self.settings;
        let ticking = *echoes || output_limit.is_some() || memory_limit.is_some() || interrupt.is_some();
        loop {
            let left = self.limit.saturating_sub(begin.elapsed());
            let waited = process.wait(if ticking { left.min(TICK) } else { left })?;
            if self.settings.echo {
                echo.pass_on(self.streams);
            }
            match waited {
                _ if interrupted() => return Err(Error::Interrupted),
                Waited::Ended(status) => return Ok((status, None)),
                Waited::NotYet if begin.elapsed() >= self.limit => {
                    return process.stop().map(|status| (status, Some(Stopped::Time)));
                }
                Waited::NotYet if self.too_much_output() => {
                    return process.stop().map(|status| (status, Some(Stopped::Output)));
                }
                Waited::NotYet if memory_limit.is_some_and(|limit| process.memory() > limit) => {
                    return process.stop().map(|status| (status, Some(Stopped::Memory)));
                }
                Waited::NotYet => {}
            }
        }
    }

    fn too_much_output(&self) -> bool {
        let size = |stream: &OwnedFd| {
            stream.try_clone().and_then(|s| File::from(s).metadata()).map_or(0, |m| m.len())
        };
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

    /// How many events it had.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.executor.memory.events().len() as u64
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
    pub fn trace(self) -> Trace {
        let Executor { memory, files, program, .. } = self.executor;
        let end = (self.status, self.stopped);
        collect::trace(memory, &mut files.borrow_mut(), program, self.plan, end, self.output)
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

fn contents(stream: &OwnedFd) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Ok(mut file) = stream.try_clone().map(File::from)
        && file.rewind().is_ok()
    {
        // What can be read is kept; a memory file does not fail.
        let _ = file.read_to_end(&mut bytes);
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

fn copy_from(stream: &OwnedFd, at: &mut u64, to: &mut dyn Write) {
    let Ok(file) = stream.try_clone().map(File::from) else { return };
    let mut buffer = [0; 16 << 10];
    while let Ok(read) = file.read_at(&mut buffer, *at)
        && read > 0
    {
        *at += read as u64;
        // A reader that went away does not concern the program.
        let _ = to.write_all(&buffer[..read]);
    }
    let _ = to.flush();
}
