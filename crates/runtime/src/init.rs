//! Takes control when the program is loaded.

use crate::{
    access,
    access_log::AccessLog,
    atomic,
    atomic_values::AtomicValues,
    before_control, children,
    clock::VirtualClock,
    conflicts::ConflictMonitor,
    context::{Context, ThreadBackend},
    crash, debug,
    descriptors::Descriptors,
    end, entry_patches, fiber,
    file_changes::RecordedPaths,
    file_names::OpenFileNames,
    files, follow, heap,
    hooks::{ids, key::Keys, loading, openmp::OpenMpLocks},
    input::InputPositions,
    libc_randomness,
    livelock::RoundDetector,
    log::{Log, c_bytes},
    maps,
    modules::Modules,
    network::TakenPorts,
    pauses, pointer_guard,
    queue::Queues,
    real::{Real, real},
    rewind::thread_start,
    serve,
    signals::PendingSignals,
    sites::PlanSites,
    stack,
    state::{NextFlags, Runtime, State},
    stream_identity, sys,
    thread::{Thread, enter_main},
    time_stamp,
    timers::Timers,
    tracer,
};
use alloc::{boxed::Box, vec::Vec};
use core::{
    ffi::{c_char, c_void},
    sync::atomic::{AtomicUsize, Ordering},
};
use unsnarl_insn::iced::{Decoder, DecoderOptions};
use unsnarl_model::{Fidelity, Flags, Op, ThreadIx};
use unsnarl_sched::{EarlyTimeouts, Picker, PrefixSteps, ThreadSet};
use unsnarl_wire::{
    BIND_NOW, DESCRIPTOR, EndKind, FOLLOW_VARIABLE, Header, MAGIC, NO_LEAK_DETECTION, PLAN_RESERVE,
    PlanWords, RUNTIME_LIBRARY, SERVICE, SPIN_COUNT, UNLIMITED_STACK, VERSION, WIRE_VARIABLE,
};

type Main = unsafe extern "C-unwind" fn(i32, *mut *mut u8, *mut *mut u8) -> i32;

real! {
    fn __libc_start_main(main: Main, argc: i32, argv: *mut *mut u8, init: usize, fini: usize, rtld_fini: usize, stack_end: usize) -> i32;
}

unsafe extern "C" {
    fn pthread_setattr_default_np(attributes: *const libc::pthread_attr_t) -> i32;
    static mut environ: *mut *mut c_char;
    static __libc_stack_end: usize;
}

#[used]
#[unsafe(link_section = ".init_array")]
static INIT: extern "C" fn() = init;

/// Runs when the library is loaded, after its dependencies and before the program.
extern "C" fn init() {
    if environment_value(WIRE_VARIABLE).is_none() {
        if let Some(name) = environment_value(FOLLOW_VARIABLE) {
            follow::request_verdict(name);
        }
        return;
    }
    stack::create();
    stack::run_isolated(|| {
        heap::with_plan_heap(pointer_guard::replace);
        unlimit_stack();
        find_rseq();
        leave_rseq();
        if let Some(offset) = tid_offset() {
            fiber::check_exit_redirection((sys::thread_pointer() + offset) as *mut u32);
        }
        heap::with_plan_heap(before_control::note);
        if let Some(header) = attach() {
            // SAFETY: `attach` checked the memory.
            unsafe { begin(header) };
        }
    });
    stack::clear_more_registers();
}

/// Removes the limit that stands for an unlimited stack. The program then sees the limit it would see without
/// the runtime, and the thread stack size that the C library derives from it.
fn unlimit_stack() {
    /// The C library's default thread stack size if the stack is unlimited.
    const THREAD_STACK: usize = 2 << 20;
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    let resource = libc::RLIMIT_STACK as usize;
    // SAFETY: the kernel writes the limit to `limit` and reads it from there.
    unsafe {
        sys::call(libc::SYS_prlimit64, [0, resource, 0, &raw mut limit as usize, 0, 0]);
        if limit.rlim_cur != UNLIMITED_STACK {
            return;
        }
        // The limit may have been set to a higher finite value.
        limit.rlim_cur = limit.rlim_max;
        sys::call(libc::SYS_prlimit64, [0, resource, &raw const limit as usize, 0, 0, 0]);
    }
    // SAFETY: local attributes, initialised before they are used.
    unsafe {
        let mut attributes: libc::pthread_attr_t = core::mem::zeroed();
        if libc::pthread_attr_init(&raw mut attributes) == 0 {
            libc::pthread_attr_setstacksize(&raw mut attributes, THREAD_STACK);
            pthread_setattr_default_np(&raw const attributes);
            libc::pthread_attr_destroy(&raw mut attributes);
        }
    }
}

/// Has the instruction decoder allocate its tables, which it does once. Decoders on the program's stack leave the tables'
/// addresses there, so these must not depend on the plan.
fn create_decoder_tables() {
    core::hint::black_box(Decoder::new(64, &[], DecoderOptions::NONE));
}

/// Maps the controller's memory.
fn attach() -> Option<*mut Header> {
    let header = sys::map_shared(DESCRIPTOR, size_of::<Header>())? as *mut Header;
    // SAFETY: the controller wrote a header; its first words never change their offsets.
    let (magic, version, total) = unsafe { ((*header).magic, (*header).version, (*header).regions.total) };
    if magic != MAGIC || version != VERSION {
        sys::write_stderr(
            b"unsnarl: the program was started by another version of unsnarl; rebuild with this one\n",
        );
        sys::exit(96);
    }
    stream_identity::install();
    crate::real::find_early();
    create_decoder_tables();
    // SAFETY: as above.
    let ordering_functions = unsafe { &(*header).plan.ordering_functions };
    heap::with_plan_heap(|| entry_patches::install(ordering_functions));
    // SAFETY: as above; the memory has the size for the coming run.
    let total = unsafe {
        if (*header).serve == 1 {
            heap::with_plan_heap(files::note_inherited);
            heap::with_plan_heap(maps::copy_page_tables_on_fork);
            heap::with_plan_heap(|| pauses::remove_pauses(&(*header).plan.spin_functions));
            serve::wait_for_run(SERVICE, header, false);
            (*header).regions.total
        } else {
            total
        }
    };
    // SAFETY: as above.
    let total = total + if unsafe { (*header).plan.snapshot } > 0 { PLAN_RESERVE } else { 0 };
    let header = sys::map_shared(DESCRIPTOR, total as usize)? as *mut Header;
    // SAFETY: the descriptor belongs to the runtime; the program must not find it.
    unsafe { sys::call(libc::SYS_close, [DESCRIPTOR as usize, 0, 0, 0, 0, 0]) };
    // SAFETY: as above.
    if unsafe { (*header).serve } == 0 {
        heap::with_plan_heap(files::note_inherited);
    }
    Some(header)
}

unsafe fn begin(header: *mut Header) {
    // SAFETY: the caller's contract.
    let plan = unsafe { (*header).plan };
    let tid_offset = tid_offset();
    // SAFETY: the caller's contract.
    let log = unsafe { Log::new(header, tid_offset.unwrap_or(0)) };
    let picker = heap::with_plan_heap(|| picker(&log));
    let picker = if plan.from_checkpoint == 0 { picker } else { picker.deferred() };

    if plan.debugged != 0 {
        debug::attach();
    }
    let backend = if plan.kernel_threads == 0 { ThreadBackend::Fibers } else { ThreadBackend::Kernel };
    if backend == ThreadBackend::Fibers && tid_offset.is_some() {
        log.set_glibc_tid(sys::thread_pointer());
    }
    let mut main =
        Thread::new(ThreadIx::MAIN, ids::PROCESS as u32, Context::adopt(backend, sys::thread_pointer()));
    main.handle = sys::thread_pointer();
    // SAFETY: the loader stores here where the main thread's stack begins.
    main.stack_top = unsafe { __libc_stack_end };
    let running = &raw mut *main;
    let mut state = State {
        current: ThreadIx::MAIN,
        previous: ThreadIx::MAIN,
        running,
        threads: Vec::from([main]),
        live: 1,
        ready: ThreadSet::new(),
        by_timeout: ThreadSet::new(),
        timeouts: Box::new(EarlyTimeouts::new(plan.time_rule())),
        sole_runner: ThreadSet::new(),
        waiting: ThreadSet::new(),
        polled: 0,
        picked: false,
        switch_flags: NextFlags::default(),
        signals: PendingSignals::default(),
        listened: 0,
        kept: Vec::new(),
        timers: Timers::default(),
        masks_differ: false,
        muted: false,
        undivided: 0,
        atomic_values: AtomicValues::new(),
        unchanged: false,
        fruitless_events: 0,
        max_fruitless_events: plan.max_spins,
        rounds: RoundDetector::of(&plan),
        spurious: plan.spurious != 0,
        continuations: false,
        after_creation: None,
        has_file_locks: false,
        to_reap: Vec::new(),
        access_log: AccessLog::of(&log),
        log,
        clock: VirtualClock::new(plan.epoch),
        entropy: libc_randomness::start(plan.entropy),
        queues: Queues::default(),
        keys: Keys::default(),
        openmp: OpenMpLocks::default(),
        descriptors: Descriptors::default(),
        open_files: OpenFileNames::default(),
        recorded_paths: RecordedPaths::default(),
        taken_ports: TakenPorts::default(),
        input_positions: InputPositions::default(),
        environment_fds: Vec::new(),
        file_locks_changed: 0,
        modules: Modules::default(),
        places: PlanSites::default(),
        conflicts: None,
        observed: is_observed(&plan),
    };
    state.log.check_at(state.rounds.due());
    state.take_over_descriptors(files::inherited());
    state.me().must_check_signals = state.next_is_arrival(ThreadIx::MAIN);
    state.ready.set(ThreadIx::MAIN, true);
    state.read_mask();
    state.take_over_signals();
    state.log.thread_created(ThreadIx::MAIN, ThreadIx::MAIN, 0, 0, false);
    state.refresh_modules();
    state.continuations = plan.continuations != 0 && !state.modules.is_program_instrumented();
    ids::enable(sys::process());
    children::install_fork_handler();
    stream_identity::set_start(plan.epoch);
    libc_randomness::replace_malloc_key();
    restore_environment();
    crash::install();
    state.unblock_unblockable();
    time_stamp::start();
    if plan.conflicts != 0 {
        state.conflicts = ConflictMonitor::new(&state.log);
    }
    let lacks_shadow = plan.conflicts != 0 && state.conflicts.is_none();
    access::configure(plan.points, plan.one_in, plan.entropy, plan.conflicts != 0, plan.accesses > 0);
    access::set_several_threads(false);
    if plan.ignored_variable != 0 {
        atomic::ignore_variable((state.modules.program_base() + plan.ignored_variable) as usize);
    }
    // SAFETY: the controller reads it after this process died, or polls it.
    unsafe { (*header).attached.store(1, Ordering::Release) };
    // SAFETY: `at_exit` has the required signature.
    unsafe { on_exit(at_exit, core::ptr::null_mut()) };
    let runtime = Runtime { picker, state }.begin();
    if lacks_shadow {
        end::refuse(
            "cannot reserve address space for race detection (a limit by `ulimit -v` or `ulimit -d`, or vm.overcommit_memory = 2?); \
             remove it, or use --points sync without --fail-on race",
        );
    }
    if tid_offset.is_none() {
        end::refuse("cannot find thread ids in the C library; only glibc 2.34 and later is supported");
    }
    // SAFETY: only reads the auxiliary vector.
    if backend == ThreadBackend::Fibers && unsafe { libc::getauxval(libc::AT_HWCAP2) } & 2 == 0 {
        end::refuse(
            "this processor or kernel does not let programs set the FS base (Linux 5.9 and fsgsbase are needed); \
             --threads kernel, where a command has it, does without",
        );
    }
    if debug::is_on() {
        debug::begin(&runtime.state, Runtime::control());
    }
}

/// Returns whether more than the next thread is to be determined at each schedule point.
pub(crate) fn is_observed(plan: &PlanWords) -> bool {
    plan.choices > 0 || plan.accesses > 0 || plan.debugged != 0
}

/// Returns the picker that the plan asks for.
pub(crate) fn picker(log: &Log) -> Picker {
    let plan = &log.header().plan;
    let prefix = PrefixSteps {
        segments: log.segments().map(Into::into).collect(),
        actions: log.actions().filter_map(|a| a.unpack()).collect(),
    };
    let fidelity = if plan.fidelity == Fidelity::Relaxed as u8 { Fidelity::Relaxed } else { Fidelity::Exact };
    Picker::new(prefix, fidelity, plan.policy(), plan.seed)
}

/// Returns the offset of the kernel's thread id in glibc's thread descriptor, from the symbol meant for
/// debuggers.
fn tid_offset() -> Option<usize> {
    static DESCRIPTION: Real = Real::new(c"_thread_db_pthread_tid");
    // SAFETY: the description consists of size in bits, count and offset in bytes.
    DESCRIPTION.find().map(|place| unsafe { *place.cast::<u32>().add(2) } as usize)
}

/// Returns the value of an environment variable.
fn environment_value(name: &str) -> Option<&'static [u8]> {
    environment().find_map(|entry| entry.strip_prefix(name.as_bytes())?.strip_prefix(b"="))
}

fn environment() -> impl Iterator<Item = &'static [u8]> {
    // SAFETY: a null-terminated list of C strings; it does not change now.
    environment_from(unsafe { environ })
}

fn environment_from(mut at: *mut *mut c_char) -> impl Iterator<Item = &'static [u8]> {
    core::iter::from_fn(move || {
        if at.is_null() {
            return None;
        }
        // SAFETY: as above.
        let entry = unsafe { *at };
        if entry.is_null() {
            return None;
        }
        // SAFETY: still before the terminating null.
        at = unsafe { at.add(1) };
        Some(c_bytes(entry))
    })
}

/// Removes the runtime's entries from the environment: the program sees its own environment, and its children
/// run without the runtime.
fn restore_environment() {
    // SAFETY: entries are only moved down or shortened in place, before the program runs.
    unsafe {
        let (mut from, mut to) = (environ, environ);
        if from.is_null() {
            return;
        }
        loop {
            let entry = *from;
            if entry.is_null() {
                *to = entry;
                return;
            }
            let text = c_bytes(entry);
            let bind_now = BIND_NOW.users_part(text);
            let users_part = bind_now.or_else(|| NO_LEAK_DETECTION.users_part(text));
            let is_own_entry = text.starts_with(WIRE_VARIABLE.as_bytes()) || users_part == Some(0);
            let (first, rest) = preloaded(text);
            if bind_now.is_some() {
                loading::expect_eager_binding();
            }
            if let Some(users_part) = users_part.filter(|&users_part| users_part > 0) {
                entry.add(users_part).write_bytes(0, text.len() - users_part);
                *to = entry;
                to = to.add(1);
            } else if !is_own_entry && !first {
                *to = entry;
                to = to.add(1);
            } else if first && rest > 0 {
                // `LD_PRELOAD=ours:theirs` becomes `LD_PRELOAD=theirs`.
                let name = b"LD_PRELOAD=";
                let start = entry.add(rest - name.len());
                core::ptr::copy(name.as_ptr().cast(), start, name.len());
                // `/proc/self/environ` shows the memory.
                entry.write_bytes(0, rest - name.len());
                *to = start;
                to = to.add(1);
            } else {
                entry.write_bytes(0, text.len());
            }
            from = from.add(1);
        }
    }
}

/// Removes the controller's setting for the OpenMP library.
fn remove_spin_count() {
    // SAFETY: `environ` is an array of C strings that ends with null, and no other thread runs yet.
    unsafe {
        let mut at = environ;
        while !at.is_null() && !(*at).is_null() {
            if c_bytes(*at) == SPIN_COUNT.as_bytes() {
                let after = environment_from(at.add(1)).count();
                core::ptr::copy(at.add(1), at, after + 1);
            } else {
                at = at.add(1);
            }
        }
    }
}

/// Returns whether the entry preloads this library first, and where the rest of its list begins.
fn preloaded(entry: &[u8]) -> (bool, usize) {
    let Some(list) = entry.strip_prefix(b"LD_PRELOAD=") else { return (false, 0) };
    let first = list.split(|&b| b == b':').next().unwrap_or(list);
    if !first.ends_with(RUNTIME_LIBRARY.as_bytes()) {
        return (false, 0);
    }
    (true, if first.len() < list.len() { entry.len() - list.len() + first.len() + 1 } else { 0 })
}

static RSEQ: AtomicUsize = AtomicUsize::new(0);

/// Finds the offset of each thread's restartable-sequence area from its thread pointer.
fn find_rseq() {
    static OFFSET: Real = Real::new(c"__rseq_offset");
    static SIZE: Real = Real::new(c"__rseq_size");
    if let (Some(offset), Some(size)) = (OFFSET.find(), SIZE.find()) {
        // SAFETY: the symbols are a pointer-sized offset and an unsigned size.
        unsafe {
            if *size.cast::<u32>() > 0 {
                RSEQ.store(*offset.cast::<usize>(), Ordering::Relaxed);
            }
        }
    }
}

/// Unregisters the calling thread's rseq area, so that the kernel stops writing processor numbers to it: a
/// fiber's area may be freed while its kernel thread still runs.
pub(crate) fn leave_rseq() {
    const UNREGISTER: usize = 1;
    const SIGNATURE: usize = 0x5305_3053;
    let offset = RSEQ.load(Ordering::Relaxed);
    if offset != 0 {
        let area = sys::thread_pointer().wrapping_add(offset);
        if thread_start::is_starting() {
            // The kernel knows only the carrier's area. This one gets the contents that the kernel leaves
            // after unregistering: no processor and zeros.
            let none = [0, u32::MAX, 0, 0, 0, 0, 0, 0];
            // SAFETY: as below.
            return unsafe { (area as *mut [u32; 8]).write(none) };
        }
        // SAFETY: the calling thread's area, as glibc registered it.
        unsafe { sys::call(libc::SYS_rseq, [area, 32, UNREGISTER, SIGNATURE, 0, 0]) };
    }
}

unsafe extern "C" {
    fn on_exit(handler: unsafe extern "C" fn(i32, *mut c_void), arg: *mut c_void) -> i32;
}

/// Runs when the program exits by itself.
unsafe extern "C" fn at_exit(status: i32, _: *mut c_void) {
    log_exit(status, 0);
}

/// Logs the exit; only the last destructors follow.
pub(crate) fn log_exit(status: i32, pc: u64) {
    if let Some(runtime) = Runtime::enter() {
        let pc = if pc == 0 { MAIN.load(Ordering::Relaxed) as u64 + 1 } else { pc };
        runtime.turn(Op::Exit, 0, pc);
        runtime.log(Op::Exit, Flags::NONE, pc, 0, u64::from(status as u32));
        end::conclude(&runtime.state, EndKind::Exit, "");
    }
}

static MAIN: AtomicUsize = AtomicUsize::new(0);

/// Inserts the runtime between the C library and the program's main function.
#[unsafe(export_name = "__libc_start_main")]
unsafe extern "C-unwind" fn start_main(
    main: Main,
    argc: i32,
    argv: *mut *mut u8,
    init: usize,
    fini: usize,
    rtld_fini: usize,
    stack_end: usize,
) -> i32 {
    MAIN.store(main as usize, Ordering::Relaxed);
    let main = if let Some(runtime) = Runtime::enter() {
        libc_randomness::replace_stack_guard();
        if runtime.state.log.header().plan.traced > 0 {
            entry_patches::remove();
        }
        tracer::begin(&runtime.state);
        if runtime.state.modules.has_openmp() {
            runtime.state.expect_waits_in_libraries(0);
        }
        // The loaded libraries have already read the setting.
        remove_spin_count();
        enter_main
    } else {
        main
    };
    // SAFETY: the arguments are passed on as received.
    unsafe { __libc_start_main(main, argc, argv, init, fini, rtld_fini, stack_end) }
}

/// Calls the program's main function.
pub(crate) unsafe extern "C-unwind" fn call_main(argc: i32, argv: *mut *mut u8, envp: *mut *mut u8) -> i32 {
    let main = MAIN.load(Ordering::Relaxed);
    if let Some(runtime) = Runtime::enter() {
        let pc = main as u64 + 1;
        runtime.state.log.thread(ThreadIx::MAIN).start = main as u64;
        runtime.turn(Op::Start, 0, pc);
        runtime.log(Op::Start, Flags::NONE, pc, 0, 0);
    }
    // SAFETY: the address is the one that the program's entry code passed.
    unsafe { core::mem::transmute::<usize, Main>(main)(argc, argv, envp) }
}
