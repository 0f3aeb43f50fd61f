//! Memory shared with the target: a memory file that both processes map. Unsafe code of this crate is only here, in
//! `probe.rs`, in `process/` and in `signals.rs`.

use crate::{Error, notes, probe, settings::ThreadBackend};
use std::{
    collections::HashMap,
    env,
    fs::{self, File},
    io,
    ops::Range,
    os::{
        fd::{AsRawFd, FromRawFd},
        unix::ffi::OsStrExt,
    },
    path::{Path, PathBuf},
    process,
    sync::atomic::{AtomicU64, Ordering},
};
use unsnarl_model::{Plan, Program, ThreadId};
use unsnarl_symbols::Binary;
use unsnarl_wire::{
    CALLS_BYTES, CHANGE_BYTES, FileRule, Header, INPUT_BYTES, MAX_FILES, MAX_ORDERING_FUNCTIONS, NetworkRule,
    ONE_STACK_BYTES, PlanThread, PlanWords, RING_WORDS, RawAccess, RawAction, RawChange, RawConflict,
    RawEnabled, RawEvent, RawFile, RawInput, RawModule, RawSegment, RawSpan, RawStack, RawThread, RawWarning,
    Regions, SideRequest, TracerWords, Tracing,
};

/// Writes as many address ranges as there is room for.
fn fill(room: &mut [[u64; 2]], ranges: Vec<Range<u64>>) {
    for (room, range) in room.iter_mut().zip(ranges) {
        *room = [range.start, range.end];
    }
}

/// Creates a memory file.
pub(crate) fn memory_file(name: &std::ffi::CStr) -> Result<File, Error> {
    // SAFETY: `name` is a C string.
    let fd = unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC) };
    if fd < 0 {
        let cause = io::Error::last_os_error();
        return unnamed_file(&cause).ok_or(Error::System { action: "cannot create a memory file", cause });
    }
    // SAFETY: the descriptor was just created and has no other owner.
    Ok(unsafe { File::from_raw_fd(fd) })
}

/// Creates a file without a name, for systems without memory files. It is in a directory with enough space, preferably
/// one in memory: a run that finds no space would be killed in the middle.
fn unnamed_file(cause: &io::Error) -> Option<File> {
    /// Far more than most runs write.
    const PLENTY: u64 = 1 << 30;
    const ENOUGH: u64 = 64 << 20;
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let directories = ["/dev/shm".into(), env::temp_dir(), "/tmp".into(), "/var/tmp".into()];
    let room = |directory: &PathBuf| probe::file_system(directory).map_or(0, |(room, _)| room);
    let mut usable: Vec<(u64, PathBuf)> =
        directories.map(|directory| (room(&directory).min(PLENTY), directory)).into();
    usable.retain(|(room, _)| *room >= ENOUGH);
    // The sort is stable: of the directories with plenty of space the first one is taken.
    usable.sort_by_key(|(room, _)| std::cmp::Reverse(*room));
    let make = |directory: &Path| {
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = directory.join(format!(".unsnarl-{}-{number}", process::id()));
        let file = File::options().read(true).write(true).create_new(true).open(&path).ok()?;
        fs::remove_file(&path).ok()?;
        Some(file)
    };
    let (file, directory) =
        usable.into_iter().find_map(|(_, directory)| Some((make(&directory)?, directory)))?;
    notes::add(format!("memfd_create is not available ({cause}): using files in {}", directory.display()));
    Some(file)
}

/// Makes all writes append. The program may use one file for both streams, and its children write too.
pub(crate) fn append_only(file: File) -> File {
    // SAFETY: sets a flag of a descriptor that this process owns.
    unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETFL, libc::O_APPEND) };
    file
}

/// The events and conflict sides whose call stacks to capture.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct StackRequest<'a> {
    /// The sides of a conflict.
    pub(crate) sides: [SideRequest; 2],
    /// Event numbers, ascending.
    pub(crate) events: &'a [u64],
}

/// Properties of a run that are not part of its plan.
#[derive(Clone, Copy, Default)]
pub(crate) struct RunMode<'a> {
    /// Call stacks to capture.
    pub(crate) stack_request: StackRequest<'a>,
    /// The program is a server that forks one process per run.
    pub(crate) serve: bool,
    /// Number of the snapshot that the process becomes at the end of the plan; 0 for none.
    pub(crate) snapshot: u8,
    /// Number of points after which the snapshot waits from which the run resumes; 0 for none.
    pub(crate) resumed: u64,
    /// Tracing of instructions.
    pub(crate) tracing: TracingRequest<'a>,
    /// Backend of the program's threads.
    pub(crate) threads: ThreadBackend,
    /// A debugger is attached.
    pub(crate) debugged: bool,
    /// There are idle processors, so waiting may spin.
    pub(crate) busy_waits: bool,
    /// Number of plain accesses to keep beside the events; 0 to log none.
    pub(crate) accesses: u64,
    /// The rule for a program that changes files.
    pub(crate) files: FileRule,
    /// Directories of which the program has a private view.
    pub(crate) private: &'a [PathBuf],
    /// Which network it has.
    pub(crate) network: NetworkRule,
}

/// Tracing of instructions in a run.
#[derive(Clone, Copy, Default)]
pub(crate) struct TracingRequest<'a> {
    pub(crate) how: Tracing,
    /// Words of space for the trace.
    pub(crate) words: u64,
    /// Paths of the modules whose code is traced.
    pub(crate) modules: &'a [String],
    /// For each thread the number of events after which it is no longer traced; empty to trace all.
    pub(crate) until: &'a [u64],
    /// Functions at which the trace of a thread pauses until the thread unwinds.
    pub(crate) pauses: &'a [u64],
}

/// The shared memory, kept from run to run.
pub(crate) struct SharedMemory {
    file: File,
    map: *mut u8,
    len: usize,
    /// See [`PlanWords::ignored_variable`].
    ignored_variable: u64,
    /// See [`PlanWords::spin_functions`].
    spin_functions: [[u64; 2]; 4],
    /// See [`PlanWords::ordering_functions`].
    ordering_functions: [[u64; 2]; MAX_ORDERING_FUNCTIONS],
    /// There is address space for the race detector: AddressSanitizer uses the same.
    pub(crate) can_detect_races: bool,
}

// SAFETY: the mapping belongs to this value alone.
unsafe impl Send for SharedMemory {}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        if !self.map.is_null() {
            // SAFETY: this value mapped it with this length, and nothing borrowed from it is alive.
            unsafe { libc::munmap(self.map.cast(), self.len) };
        }
    }
}

impl SharedMemory {
    /// Creates the shared memory for runs of this program.
    pub(crate) fn new(program: &Program) -> Result<Self, Error> {
        let file = memory_file(c"unsnarl")?;
        // Rust's mutexes read the panic count at every lock and unlock, and the value matters only while their own
        // thread panics. A quarter of all points would be such reads.
        let binary = Binary::read(Path::new(&program.path)).ok();
        let ignored_variable = binary.as_ref().and_then(|binary| binary.panic_count).unwrap_or(0);
        let can_detect_races = !binary.as_ref().is_some_and(|binary| binary.contains_asan);
        let mut ordering_functions = [[0; 2]; MAX_ORDERING_FUNCTIONS];
        let mut spin_functions = [[0; 2]; 4];
        if let Some(binary) = binary {
            fill(&mut ordering_functions, binary.ordering_functions);
            fill(&mut spin_functions, binary.spin_functions);
        }
        Ok(Self {
            file,
            map: std::ptr::null_mut(),
            len: 0,
            ignored_variable,
            spin_functions,
            ordering_functions,
            can_detect_races,
        })
    }

    pub(crate) fn fd(&self) -> i32 {
        self.file.as_raw_fd()
    }

    fn grow(&mut self, len: usize) -> Result<(), Error> {
        if len <= self.len {
            return Ok(());
        }
        let failed = |action| Error::System { action, cause: io::Error::last_os_error() };
        self.file
            .set_len(len as u64)
            .map_err(|cause| Error::System { action: "cannot enlarge the shared memory", cause })?;
        // SAFETY: the old mapping is this value's own; by `&mut self`, nothing borrowed from it is alive.
        unsafe {
            if !self.map.is_null() {
                libc::munmap(self.map.cast(), self.len);
            }
            let flags = libc::MAP_SHARED | libc::MAP_NORESERVE;
            let map = libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                flags,
                self.fd(),
                0,
            );
            if map == libc::MAP_FAILED {
                self.map = std::ptr::null_mut();
                return Err(failed("cannot map the shared memory"));
            }
            self.map = map.cast();
        }
        self.len = len;
        Ok(())
    }

    /// Writes the plan and the header of a run. `program` is the path by which the plan names the program's own module.
    pub(crate) fn prepare(&mut self, plan: &Plan, mode: RunMode<'_>, program: &str) -> Result<(), Error> {
        let RunMode { stack_request, serve, snapshot, resumed, tracing, .. } = mode;
        let RunMode { threads: kind, debugged, busy_waits, files, private, network, .. } = mode;
        let threads = plan_threads(&threads_of(plan));
        let inputs = raw_inputs(plan, &threads);
        let words = PlanWords {
            seed: plan.seed,
            entropy: plan.entropy,
            epoch: plan.epoch,
            max_events: plan.limits.events,
            max_spins: plan.limits.spins.into(),
            fidelity: plan.prefix.fidelity as u8,
            points: plan.points as u8,
            spurious: plan.spurious.into(),
            timeouts: plan.timeouts as u8,
            continuations: plan.continuations.into(),
            conflicts: (plan.conflicts && self.can_detect_races).into(),
            choices: plan.choices.into(),
            from_checkpoint: plan.from_checkpoint.into(),
            one_in: plan.one_in,
            threads: threads.entries.len() as u64,
            modules: (plan.prefix.modules.len() + plan.places.modules.len()) as u64,
            segments: plan.prefix.segments.len() as u64,
            actions: plan.prefix.actions.len() as u64,
            spans: plan.places.spans.len() as u64,
            stack_requests: stack_request.events.len() as u64,
            side_requests: stack_request.sides,
            snapshot,
            resumed,
            tracing: tracing.how as u8,
            step_words: tracing.words,
            traced: tracing.modules.len() as u64,
            replays_inputs: plan.inputs.is_some().into(),
            inputs: inputs.len() as u64,
            kernel_threads: u8::from(kind == ThreadBackend::Kernel),
            debugged: u8::from(debugged),
            busy_waits: u8::from(busy_waits),
            accesses: mode.accesses,
            files: files as u8,
            network: network as u8,
            until: tracing.until.len() as u64,
            pauses: tracing.pauses.len() as u64,
            ignored_variable: self.ignored_variable,
            spin_functions: self.spin_functions,
            ordering_functions: self.ordering_functions,
            ..PlanWords::default()
        }
        .with_policy(plan.tail);
        let regions = Regions::new(&words, plan.limits.events);
        self.grow(regions.total as usize)?;
        // SAFETY: the mapping is as long as the regions require, and the target does not run yet.
        unsafe {
            let mut header = Header::new(regions, words, serve);
            list_directories(&mut header.private_directories, private);
            self.map.cast::<Header>().write(header);
            if stack_request.sides != <[SideRequest; 2]>::default() {
                // Stacks of an earlier run must not be taken for this run's.
                for side in [0, 1] {
                    self.table_mut::<u64>(regions.stacks_end + side * ONE_STACK_BYTES, 2).fill(0);
                }
            }
            self.table_mut(regions.stack_requests, stack_request.events.len())
                .copy_from_slice(stack_request.events);
            for nth in 0..words.stack_requests {
                self.table_mut::<u64>(regions.calls + nth * CALLS_BYTES, 2).fill(0);
            }
            self.table_mut(regions.plan_threads, threads.entries.len()).copy_from_slice(&threads.entries);
            let modules = self.table_mut::<RawModule>(regions.plan_modules, words.modules as usize);
            let paths = plan.prefix.modules.iter().chain(&plan.places.modules);
            name(modules, paths, program);
            name(self.table_mut(regions.traced, tracing.modules.len()), tracing.modules.iter(), program);
            self.table_mut(regions.until, tracing.until.len()).copy_from_slice(tracing.until);
            self.table_mut(regions.pauses, tracing.pauses.len()).copy_from_slice(tracing.pauses);
            self.table_mut::<u8>(regions.plan_inputs, inputs.len()).copy_from_slice(&inputs);
            let segments = self.table_mut::<RawSegment>(regions.plan_segments, plan.prefix.segments.len());
            for (entry, segment) in segments.iter_mut().zip(&plan.prefix.segments) {
                *entry = RawSegment { thread: threads.at[segment.thread.index()], points: segment.points };
            }
            let actions = self.table_mut::<RawAction>(regions.plan_actions, plan.prefix.actions.len());
            for (entry, action) in actions.iter_mut().zip(&plan.prefix.actions) {
                *entry = (*action).into();
            }
            let spans = self.table_mut::<RawSpan>(regions.plan_spans, plan.places.spans.len());
            for (entry, span) in spans.iter_mut().zip(&plan.places.spans) {
                let module = plan.prefix.modules.len() as u64 + u64::from(span.module.0);
                *entry = RawSpan { module, start: span.start, end: span.end };
            }
        }
        Ok(())
    }

    /// Returns the instruction trace while it is being written.
    pub(crate) fn live_trace(&self) -> LiveTrace<'_> {
        LiveTrace { memory: self }
    }

    #[allow(clippy::mut_from_ref, reason = "disjoint tables of one mapping, used one after the other")]
    unsafe fn table_mut<T>(&self, at: u64, len: usize) -> &mut [T] {
        // SAFETY: the caller guarantees that the table is within the mapping.
        unsafe { std::slice::from_raw_parts_mut(self.map.add(at as usize).cast(), len) }
    }

    fn table<T>(&self, at: u64, len: usize) -> &[T] {
        assert!(at as usize + len * size_of::<T>() <= self.len, "the shared memory was damaged");
        // SAFETY: the table is within the mapping; the target has ended, so nothing writes; all tables hold plain
        // numbers.
        unsafe { std::slice::from_raw_parts(self.map.add(at as usize).cast(), len) }
    }

    pub(crate) fn header(&self) -> &Header {
        // SAFETY: the header is initialised and the target has ended. Only our runtime writes its enum `EndKind`.
        unsafe { &*self.map.cast::<Header>() }
    }

    pub(crate) fn attached(&self) -> bool {
        self.header().attached.load(Ordering::Acquire) == 1
    }

    pub(crate) fn events(&self) -> &[RawEvent] {
        let h = self.header();
        let count = h.events.load(Ordering::Acquire).min(h.plan.max_events);
        self.table(h.regions.events, count as usize)
    }

    /// Returns the logged plain accesses, in two parts: the older ones first.
    pub(crate) fn accesses(&self) -> (&[RawAccess], &[RawAccess]) {
        let h = self.header();
        let (count, room) = (h.accesses.load(Ordering::Acquire), h.plan.accesses);
        let entries = self.table(h.regions.accesses, count.min(room) as usize);
        if count <= room {
            return (entries, &[]);
        }
        let (newer, older) = entries.split_at((count % room) as usize);
        (older, newer)
    }

    pub(crate) fn threads(&self) -> &[RawThread] {
        let h = self.header();
        self.table(h.regions.threads, h.threads.load(Ordering::Acquire).max(1) as usize)
    }

    pub(crate) fn modules(&self) -> &[RawModule] {
        let h = self.header();
        self.table(
            h.regions.modules,
            (h.modules.load(Ordering::Acquire) as usize).min(unsnarl_wire::MAX_MODULES),
        )
    }

    pub(crate) fn warnings(&self) -> &[RawWarning] {
        let h = self.header();
        self.table(
            h.regions.warnings,
            (h.warnings.load(Ordering::Acquire) as usize).min(unsnarl_wire::MAX_WARNINGS),
        )
    }

    pub(crate) fn conflicts(&self) -> &[RawConflict] {
        let h = self.header();
        self.table(
            h.regions.conflicts,
            (h.conflicts.load(Ordering::Acquire) as usize).min(unsnarl_wire::MAX_CONFLICTS),
        )
    }

    /// Returns the results of I/O with peers outside the program, each with its bytes.
    pub(crate) fn inputs(&self) -> Vec<(RawInput, &[u8])> {
        let h = self.header();
        let mut at = h.regions.inputs;
        let end = at + h.inputs.load(Ordering::Acquire).min(INPUT_BYTES);
        let mut inputs = Vec::new();
        while at + (size_of::<RawInput>() as u64) <= end {
            let input = self.table::<RawInput>(at, 1)[0];
            if input.len > end - at {
                break;
            }
            inputs.push((input, self.table::<u8>(at + size_of::<RawInput>() as u64, input.len as usize)));
            at += input.size();
        }
        inputs
    }

    /// Returns the files that events name.
    pub(crate) fn files(&self) -> &[RawFile] {
        let h = self.header();
        self.table(h.regions.files, (h.files.load(Ordering::Acquire) as usize).min(MAX_FILES))
    }

    /// Returns the changes of files in their order, each with its bytes.
    pub(crate) fn changes(&self) -> Vec<(RawChange, &[u8])> {
        let h = self.header();
        let mut at = h.regions.changes;
        let end = at + h.changes.load(Ordering::Acquire).min(CHANGE_BYTES);
        let mut changes = Vec::new();
        let head = size_of::<RawChange>() as u64;
        while at + head <= end {
            let change = self.table::<RawChange>(at, 1)[0];
            let Some(size) = change.size().filter(|size| *size <= end - at) else { break };
            changes.push((change, self.table::<u8>(at + head, (size - head) as usize)));
            at += size;
        }
        changes
    }

    /// Returns the enabled threads at each event, if the plan asked for them.
    pub(crate) fn choices(&self) -> &[RawEnabled] {
        let h = self.header();
        self.table(h.regions.choices, self.events().len() * usize::from(h.plan.choices))
    }

    /// Returns the stacks copied for the two sides of the requested conflict.
    pub(crate) fn side_stacks(&self) -> [Option<(RawStack, &[u8])>; 2] {
        [0, 1].map(|side| {
            let at = self.header().regions.stacks_end + side * ONE_STACK_BYTES;
            let stack = self.table::<RawStack>(at, 1)[0];
            let (head, most) = (size_of::<RawStack>() as u64, ONE_STACK_BYTES);
            (stack.side == side + 1 && stack.len <= most - head)
                .then(|| (stack, self.table::<u8>(at + head, stack.len as usize)))
        })
    }

    /// Returns the stacks copied for the requested events, as far as the run reached them.
    pub(crate) fn call_stacks(&self) -> Vec<(u64, (RawStack, &[u8]))> {
        let h = self.header();
        let stacks = (0..h.plan.stack_requests).filter_map(|nth| {
            let at = h.regions.calls + nth * CALLS_BYTES;
            let stack = self.table::<RawStack>(at, 1)[0];
            let head = size_of::<RawStack>() as u64;
            let number = stack.side.checked_sub(1).filter(|_| stack.len <= CALLS_BYTES - head)?;
            Some((number, (stack, self.table::<u8>(at + head, stack.len as usize))))
        });
        stacks.collect()
    }

    /// Returns the copied stacks, each with its bytes.
    pub(crate) fn stacks(&self) -> Vec<(RawStack, &[u8])> {
        let h = self.header();
        let mut at = h.regions.stacks;
        let end = (at + h.stacks.load(Ordering::Acquire)).min(h.regions.stacks_end);
        let mut stacks = Vec::new();
        while at + (size_of::<RawStack>() as u64) <= end {
            let stack = self.table::<RawStack>(at, 1)[0];
            at += size_of::<RawStack>() as u64;
            if at + stack.len > end {
                break;
            }
            stacks.push((stack, self.table::<u8>(at, stack.len as usize)));
            at += stack.len;
        }
        stacks
    }
}

/// The words of an instruction trace while the target writes them.
pub(crate) struct LiveTrace<'a> {
    memory: &'a SharedMemory,
}

// SAFETY: the shared data are atomic words, and memory that is no longer written.
unsafe impl Sync for LiveTrace<'_> {}

impl LiveTrace<'_> {
    fn tracer(&self) -> *const TracerWords {
        // SAFETY: the pointer is within the header; no reference is made, because the target writes the header.
        unsafe { &raw const (*self.memory.map.cast::<Header>()).tracer }
    }

    fn region(&self) -> (u64, u64) {
        let header = self.memory.map.cast::<Header>();
        // SAFETY: this process wrote the fields before the target was started, and nothing has written them since.
        unsafe { ((*header).regions.steps, (*header).plan.step_words) }
    }

    /// Returns the number of words; the latest record may be incomplete.
    pub(crate) fn count(&self) -> u64 {
        let tracer = self.tracer();
        // SAFETY: the target writes these as whole words, the first one before the other.
        let (next, first) =
            unsafe { ((*tracer).next.load(Ordering::Acquire), (&raw const (*tracer).first).read_volatile()) };
        (next.saturating_sub(first) / 8).min(self.region().1)
    }

    /// Copies words that are complete and were not freed.
    pub(crate) fn copy(&self, words: std::ops::Range<u64>, into: &mut Vec<u64>) {
        let (at, _) = self.region();
        into.clear();
        into.reserve((words.end - words.start) as usize);
        let mut word = words.start;
        while word < words.end {
            // The buffer is a ring.
            let (in_ring, ring) = (word % RING_WORDS as u64, RING_WORDS as u64);
            let count = (words.end - word).min(ring - in_ring) as usize;
            let start = at as usize + 8 * in_ring as usize;
            assert!(start + 8 * count <= self.memory.len, "the shared memory was damaged");
            // SAFETY: the words are within the mapping and aligned; the target is past them and does not reuse them
            // before they are freed.
            into.extend_from_slice(unsafe {
                std::slice::from_raw_parts(self.memory.map.add(start).cast::<u64>(), count)
            });
            word += count as u64;
        }
    }

    /// Frees the memory of all words before `end`, for the target to reuse.
    pub(crate) fn free(&self, end: u64) {
        // SAFETY: the field is an atomic word of the header.
        unsafe { (*self.tracer()).consumed.store(end, Ordering::Release) };
    }

    /// Makes the target stop tracing.
    pub(crate) fn stop(&self) {
        // SAFETY: the field is an atomic word of the header.
        unsafe { (*self.tracer()).stopped.store(1, Ordering::Release) };
    }
}

/// Writes paths, each with a zero at its end. One that does not fit is left out, and then not private to the runtime.
fn list_directories(mut room: &mut [u8], directories: &[PathBuf]) {
    for directory in directories {
        let path = directory.as_os_str().as_bytes();
        if path.len() < room.len() {
            let (place, rest) = room.split_at_mut(path.len() + 1);
            place[..path.len()].copy_from_slice(path);
            room = rest;
        }
    }
}

/// Writes the paths in the form that the loader uses.
fn name<'a>(entries: &mut [RawModule], paths: impl Iterator<Item = &'a String>, program: &str) {
    for (entry, path) in entries.iter_mut().zip(paths) {
        *entry = RawModule { base: 0, start: 0, end: 0, path: [0; unsnarl_wire::MAX_PATH] };
        // The loader has no name for the program itself.
        let path = if path == program { "" } else { path };
        let len = path.len().min(entry.path.len() - 1);
        entry.path[..len].copy_from_slice(&path.as_bytes()[..len]);
    }
}

/// A plan's threads in the form that the runtime reads: ancestors first and complete.
struct PlanThreads {
    entries: Vec<PlanThread>,
    /// The table entry of each of the plan's threads.
    at: Vec<u32>,
}

fn plan_threads(ids: &[ThreadId]) -> PlanThreads {
    let order = plan_order(ids);
    let entry: HashMap<&ThreadId, u32> = order.iter().zip(0..).collect();
    let entries = order.iter().map(|id| match id.parent() {
        Some((parent, nth)) => PlanThread { parent: entry[&parent], nth },
        None => PlanThread::default(),
    });
    PlanThreads { entries: entries.collect(), at: ids.iter().map(|id| entry[id]).collect() }
}

/// Returns all threads that a plan mentions, those of its schedule first.
pub(crate) fn threads_of(plan: &Plan) -> Vec<ThreadId> {
    let inputs = plan.inputs.iter().flat_map(|inputs| inputs.iter());
    let mut all = plan.prefix.threads.clone();
    let known: std::collections::HashSet<ThreadId> = all.iter().cloned().collect();
    let mut more: Vec<ThreadId> =
        inputs.map(|input| &input.thread).filter(|thread| !known.contains(thread)).cloned().collect();
    more.dedup();
    all.append(&mut more);
    all
}

/// Encodes the plan's inputs in the form that the runtime reads.
fn raw_inputs(plan: &Plan, threads: &PlanThreads) -> Vec<u8> {
    let Some(inputs) = &plan.inputs else { return Vec::new() };
    let entries: HashMap<ThreadId, u32> =
        threads_of(plan).into_iter().zip(threads.at.iter().copied()).collect();
    let mut bytes = Vec::new();
    for input in inputs.iter() {
        let op = input.op as u16;
        let flags = if input.timed_out { RawInput::TIMED_OUT } else { 0 }
            | if input.blocked { RawInput::BLOCKED } else { 0 };
        bytes.extend_from_slice(&entries[&input.thread].to_le_bytes());
        bytes.extend_from_slice(&op.to_le_bytes());
        bytes.extend_from_slice(&flags.to_le_bytes());
        bytes.extend_from_slice(&input.requested.to_le_bytes());
        bytes.extend_from_slice(&input.result.to_le_bytes());
        bytes.extend_from_slice(&(input.bytes.len() as u64).to_le_bytes());
        bytes.extend_from_slice(&input.bytes);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
    }
    bytes
}

/// Returns the threads of a plan and all their ancestors, ancestors first; empty for a plan without threads.
pub(crate) fn plan_order(ids: &[ThreadId]) -> Vec<ThreadId> {
    let ancestors = |id: &ThreadId| std::iter::successors(Some(id.clone()), |id| Some(id.parent()?.0));
    let mut all: Vec<ThreadId> = ids.iter().flat_map(ancestors).collect();
    all.sort_by(|a, b| (a.path().len(), a.path()).cmp(&(b.path().len(), b.path())));
    all.dedup();
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ancestors_are_included_and_come_first() {
        let ids: Vec<ThreadId> = ["0.2.1", "0"].iter().map(|text| text.parse().unwrap()).collect();
        let threads = plan_threads(&ids);
        let expected = [(0, 0), (0, 2), (1, 1)].map(|(parent, nth)| PlanThread { parent, nth });
        assert_eq!(threads.entries, expected);
        assert_eq!(threads.at, [2, 0]);
    }
}
