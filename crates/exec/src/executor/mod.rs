//! Runs one program any number of times, each time by a plan.

mod snapshots;

use crate::{
    Error, FileChanges, InstructionTrace, InstructionTraceOptions, Run, Settings,
    binding::Binding,
    collect::{self, ModuleFiles},
    files::{self, FileView, NetworkView, ServerCount},
    instruction_trace::TraceCollector,
    memory::{RunMode, SharedMemory, StackRequest, TracingRequest},
    monitor::RunMonitor,
    notes,
    process::{Launch, PrivateView, Process, Server, raise_descriptor_limit},
    rewind_policy::RewindPolicy,
    signals,
    snapshot::{self, Snapshot},
    steps::CompressedSteps,
    streams::{Streams, contents, create_streams},
};
use std::{
    cell::RefCell,
    io::{Seek, SeekFrom, Write},
    os::unix::process::ExitStatusExt,
    path::Path,
    process::Child,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};
use unsnarl_model::{Conflict, Module, Op, Output, Plan, Program, Site, Trace};
use unsnarl_wire::{CHILD, EndKind, FileRule, LOGGED_ACCESSES, PEER_OUTSIDE, PORT, SideRequest, Tracing};

/// Runs one program any number of times, each time by a plan.
pub struct Executor {
    pub(crate) program: Program,
    pub(crate) binding: Binding,
    settings: Settings,
    pub(crate) memory: SharedMemory,
    streams: Streams,
    /// Snapshots from which runs resume. The other ones are forked from the first one.
    snapshots: Vec<Snapshot>,
    server: Option<Server>,
    /// The server has made a run, so it can: if it ends now, something outside ended it.
    has_served: bool,
    /// The number of times the server was started again since it last made a run.
    restarts: u32,
    rewinding: RewindPolicy,
    /// The last run wrote nothing and left no process behind that could write.
    is_silent: bool,
    /// Number of plain accesses that the next run keeps.
    logged_accesses: u64,
    view: FileView,
    network: NetworkView,
    /// The server could not be started again.
    is_server_lost: bool,
    _count: Option<ServerCount>,
    /// The server's private view has changes that were not recorded.
    is_view_stale: bool,
    /// The last run has changed files, which were not restored yet.
    has_changes: bool,
    pub(crate) files: RefCell<ModuleFiles>,
}

impl std::fmt::Debug for Executor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Executor").field("program", &self.program.path).finish_non_exhaustive()
    }
}

impl Executor {
    /// Prepares runs of the program.
    ///
    /// # Errors
    /// Returns an error if the system refuses memory.
    pub fn new(program: Program, settings: Settings) -> Result<Self, Error> {
        raise_descriptor_limit()?;
        signals::check_allowed()?;
        let streams = create_streams(&program)?;
        let binding = Binding::of(&program)?;
        let mut memory = SharedMemory::new(&program)?;
        let server = if settings.serve {
            Some(start_server(&program, &binding, &streams, &mut memory, None)?)
        } else {
            None
        };
        let view = match settings.files {
            FileChanges::Keep => FileView::Real,
            FileChanges::Undo if settings.serve => FileView::Unchanged,
            FileChanges::Undo | FileChanges::UndoLater => FileView::Exclusive,
        };
        let network = match settings.files {
            FileChanges::Undo if settings.serve => NetworkView::Unused,
            _ => NetworkView::Machine,
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
            has_served: false,
            restarts: 0,
            rewinding,
            is_silent: false,
            logged_accesses: 0,
            view,
            network,
            is_server_lost: false,
            _count: settings.serve.then(ServerCount::new),
            is_view_stale: false,
            has_changes: false,
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

    /// Runs the plan and logs its plain accesses with their values, also those that are no schedule points. The order
    /// of events is the same as without the log.
    ///
    /// # Errors
    /// Returns an error in the same cases as [`run`](Self::run).
    pub fn run_with_accesses(&mut self, plan: &Plan) -> Result<Trace, Error> {
        self.logged_accesses = LOGGED_ACCESSES;
        let ran = self.run_with(plan, StackRequest::default(), TracingRequest::default(), None);
        let trace = ran.map(Run::trace);
        self.logged_accesses = 0;
        trace
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
        self.restart_server()
    }

    /// Loads the program again, if it is a server.
    fn restart_server(&mut self) -> Result<(), Error> {
        self.drop_snapshots_from(0);
        if self.server.take().is_some() || self.is_server_lost {
            let Self { program, binding, streams, memory, view, network, .. } = self;
            let view = PrivateView::new(view.directories(), *network == NetworkView::Private, program);
            self.server = Some(start_server(program, binding, streams, memory, view?.as_ref())?);
        }
        self.is_server_lost = false;
        self.is_view_stale = false;
        Ok(())
    }

    /// Starts the server again after something outside has ended it, for example because the system was out of memory.
    /// Returns false if it seems to end by itself: then it would only end again.
    fn revive_server(&mut self) -> Result<bool, Error> {
        const MAX_RESTARTS: u32 = 3;
        let Some(server) = &mut self.server else { return Ok(false) };
        let was_killed = |server: &mut Server| {
            server.child.wait().is_ok_and(|status| status.signal() == Some(libc::SIGKILL))
        };
        let from_outside = std::mem::take(&mut self.has_served) || was_killed(server);
        if !from_outside || self.restarts >= MAX_RESTARTS {
            return Ok(false);
        }
        self.restarts += 1;
        self.restart_server()?;
        Ok(true)
    }

    /// Gives the program the view of files, or the network, in which it may go on where the last run ended.
    fn allow_what_was_missing(&mut self) -> Result<(), Error> {
        const INSEPARABLE: &str = "its runs cannot be separated";
        let message = collect::message(&self.memory.header().end);
        if message == PEER_OUTSIDE {
            self.network = NetworkView::Exclusive;
            files::note_exclusive("uses the network outside itself", INSEPARABLE);
            return self.restart_server();
        }
        let is_port = message == PORT;
        let path = if message == CHILD { &self.program.cwd } else { &message };
        let reason = if is_port {
            self.network = NetworkView::Private;
            self.restart_in_private_view().err()
        } else {
            match self.view.with(Path::new(path), Path::new(&self.program.cwd)) {
                Some(private) => {
                    self.view = private;
                    self.restart_in_private_view().err()
                }
                None => Some(String::new()),
            }
        };
        let Some(reason) = reason else { return Ok(()) };
        let reason = format!("{INSEPARABLE}{reason}");
        if is_port {
            self.network = NetworkView::Exclusive;
            files::note_exclusive("takes a port", &reason);
        } else {
            self.view = FileView::Exclusive;
            let action = if message == CHILD {
                "starts other programs".to_owned()
            } else {
                format!("changes files ({message})")
            };
            files::note_exclusive(&action, &reason);
        }
        self.restart_server()
    }

    /// Loads the program again with its private view; returns why that is not possible.
    fn restart_in_private_view(&mut self) -> Result<(), String> {
        let is_served = self.server.is_some();
        let restarted = self.restart_server();
        // If there is no server now, the next one must be started all the same.
        self.is_server_lost = is_served && self.server.is_none();
        restarted.map_err(|error| format!(" ({error})"))
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
        self.undo_changes();
        if self.is_view_stale {
            self.restart_server()?;
        }
        let rule = self.view.rule();
        let permit = files::permit(rule == FileRule::Undo || self.network == NetworkView::Exclusive);
        let accesses = self.logged_accesses;
        let mode = RunMode {
            stack_request,
            serve,
            tracing,
            threads,
            busy_waits,
            accesses,
            files: rule,
            private: self.view.directories(),
            network: self.network.rule(),
            ..RunMode::default()
        };
        // Stacks, instructions and accesses are captured only by a run from the beginning.
        let whole = stack_request != StackRequest::default() || tracing.how != Tracing::Off || accesses > 0;
        let mut from = if whole { None } else { self.nearest(plan) };
        if let Some(at) = from {
            let resumed = self.snapshots[at].points();
            let mode = RunMode { resumed: resumed as u64, ..mode };
            self.memory.prepare(&snapshot::remaining_points(plan, resumed), mode, &self.program.path)?;
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
            (None, None) => {
                Process::start(Launch { program, binding, streams, memory: memory.fd(), view: None })
            }
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
        self.has_changes = matches!(rule, FileRule::Undo | FileRule::UndoPrivate)
            && self.memory.header().changed_files.load(Ordering::Acquire) != 0;
        if self.settings.files != FileChanges::UndoLater {
            self.undo_changes();
        }
        self.is_view_stale = rule == FileRule::UndoPrivate && self.had_children();
        drop(permit);
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
                if matches!(error, Error::NotServing) && self.revive_server()? {
                    return self.run_with(plan, stack_request, tracing, keep);
                }
                let Self { server, streams, .. } = &mut *self;
                return Err(match server {
                    Some(server) => not_attached(error, &mut server.child, streams),
                    None => error,
                });
            }
            (ended, _) => ended?,
        };

        (self.has_served, self.restarts) = (true, 0);
        if self.memory.header().end.kind == EndKind::NeedsLazyBinding && self.binding == Binding::Eager {
            self.bind_lazily()?;
            return self.run_with(plan, stack_request, tracing, keep);
        }
        if self.memory.header().end.kind == EndKind::ChangesFiles {
            self.allow_what_was_missing()?;
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

impl Executor {
    /// Restores the files that the last run has changed, if that was not done yet.
    pub(super) fn undo_changes(&mut self) {
        if !std::mem::take(&mut self.has_changes) {
            return;
        }
        let root = match &self.server {
            Some(server) if self.view.rule() == FileRule::UndoPrivate => {
                format!("/proc/{}/root", server.child.id())
            }
            _ => "/".to_owned(),
        };
        files::undo(&self.memory, Path::new(&root));
    }

    /// Returns whether the last run has started children, whose changes are not recorded.
    fn had_children(&self) -> bool {
        self.memory.events().iter().any(|event| event.op() == Some(Op::ChildStart))
    }
}

impl Drop for Executor {
    fn drop(&mut self) {
        self.undo_changes();
    }
}

/// SIGSYS: ends a process that is to be rewound and makes a system call that cannot be undone.
const NOT_ALLOWED: i32 = 31;

/// Starts the program as a server.
fn start_server(
    program: &Program,
    binding: &Binding,
    streams: &Streams,
    memory: &mut SharedMemory,
    view: Option<&Arc<PrivateView>>,
) -> Result<Server, Error> {
    memory.prepare(&Plan::default(), RunMode { serve: true, ..RunMode::default() }, &program.path)?;
    Server::start(Launch { program, binding, streams, memory: memory.fd(), view })
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
