//! Threads: their records, creation and end.

use crate::{
    context::{Context, ThreadBackend},
    debug,
    dispatch::PauseGuard,
    end,
    gate::Gate,
    hooks::{mutex::Held, stdio},
    real::real,
    rewind::thread_start,
    signals::{PendingSignals, SuspendedWait},
    stack,
    state::{NextFlags, Runtime},
    sys,
    unseen_order::UnseenOrder,
    watchdog,
};
use alloc::{boxed::Box, vec::Vec};
use core::{arch::naked_asm, cell::UnsafeCell, ffi::c_void};
use unsnarl_model::{Flags, Op, ThreadIx};
use unsnarl_sched::{SpinDetector, TimedWait};

real! {
    fn pthread_create(thread: *mut usize, attr: *const libc::pthread_attr_t, start: StartRoutine, arg: *mut c_void) -> i32;
    fn pthread_join(thread: usize, result: *mut *mut c_void) -> i32;
    fn pthread_attr_setdetachstate(attr: *mut libc::pthread_attr_t, state: i32) -> i32;
    fn pthread_attr_getdetachstate(attr: *const libc::pthread_attr_t, state: *mut i32) -> i32;
    fn pthread_attr_getstack(attr: *const libc::pthread_attr_t, lowest: *mut usize, size: *mut usize) -> i32;
    fn __call_tls_dtors();
    fn exit(status: i32) -> !;
}

/// A thread's start routine.
pub(crate) type StartRoutine = unsafe extern "C-unwind" fn(*mut c_void) -> *mut c_void;

pub(crate) struct Thread {
    pub(crate) context: Context,
    pub(crate) ix: ThreadIx,
    /// The id that `gettid` returns and that locks store as their owner.
    pub(crate) tid: u32,
    /// The thread's `pthread_t`.
    pub(crate) handle: usize,
    pub(crate) start: Option<StartRoutine>,
    /// True for C11 threads, whose routine returns an int.
    pub(crate) returns_int: bool,
    pub(crate) arg: *mut c_void,
    pub(crate) result: *mut c_void,
    pub(crate) children: u32,
    /// The number of accesses that could have been schedule points, if accesses are sampled.
    pub(crate) accesses: u64,
    pub(crate) ended: bool,
    pub(crate) detached: bool,
    /// True while another thread is joining it.
    pub(crate) joined: bool,
    /// True if it was joined, or detached after its end: its handle is no longer valid.
    pub(crate) forgotten: bool,
    /// True if the program supplied its stack; the program may free it as soon as the thread cannot run on
    /// it.
    own_stack: bool,
    /// True if glibc has freed it; its handle may belong to another thread by now.
    pub(crate) reaped: bool,
    pub(crate) pending: Pending,
    /// True if it could not go on when its wait began.
    pub(crate) blocked: bool,
    /// The time at which it began to wait, see [`crate::queue`].
    pub(crate) arrival: u64,
    /// The event that woke this thread in particular (a broadcast).
    pub(crate) granted: Option<u64>,
    /// True if a child process it waits for has ended.
    pub(crate) child_ended: bool,
    pub(crate) cancel: Cancel,
    /// The mutexes it holds, in acquisition order.
    pub(crate) held: Vec<Held>,
    /// The read-write locks it holds for reading.
    pub(crate) read_held: Vec<usize>,
    /// The `pthread_once` routines it is executing.
    pub(crate) once: Vec<(unsafe extern "C-unwind" fn(), usize, *const i32)>,
    pub(crate) alternate_stack: libc::stack_t,
    /// Nesting depth of undivided regions that the program asked for.
    pub(crate) undivided: u32,
    /// The flags of all its events: whether it is in such a region.
    pub(crate) region_flags: NextFlags,
    /// Notes about uninstrumented code that it has executed, see [`crate::unseen_order`].
    pub(crate) unseen_order: UnseenOrder,
    /// The descriptors it waits for, see [`Gate::Descriptors`].
    pub(crate) awaited: Vec<UnsafeCell<libc::pollfd>>,
    /// Its signal mask; valid while it does not run, or if no mask was ever changed.
    pub(crate) mask: u64,
    /// Signals that were sent to this thread.
    pub(crate) signals: PendingSignals,
    /// True if it must check, at its turn, for a pending signal or an asynchronous cancellation.
    pub(crate) must_check_signals: bool,
    /// True if the handler that ran last restarts the operation it interrupted.
    pub(crate) restarts: bool,
    /// True if a handler has run and the operation it interrupted is about to fail.
    pub(crate) interrupted: bool,
    /// Waits it left in order to handle a signal.
    pub(crate) suspended: Vec<SuspendedWait>,
    /// True for the thread that makes timers fire.
    pub(crate) is_timer: bool,
    /// The highest address of its stack, which grows down.
    pub(crate) stack_top: usize,
    /// Its recent fruitless operations.
    pub(crate) spin_detector: SpinDetector,
    /// Its time-outs so far; the deadline is valid while it can go on only by a time-out.
    pub(crate) timed_wait: TimedWait,
}

/// The operation a thread is about to perform.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pending {
    pub(crate) op: Op,
    pub(crate) pc: u64,
    pub(crate) addr: u64,
    pub(crate) gate: Gate,
    /// In virtual time; `u64::MAX` if there is no deadline.
    pub(crate) deadline: u64,
    pub(crate) cancellable: bool,
}

/// The `pthread_cancel` state of a thread.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cancel {
    pub(crate) requested: bool,
    pub(crate) disabled: bool,
    pub(crate) asynchronous: bool,
    /// True while it exits: cleanup handlers and destructors are not interrupted, even if they enable
    /// cancellation.
    pub(crate) exiting: bool,
}

impl Cancel {
    /// Returns whether the thread must stop at its next cancellation point.
    pub(crate) const fn is_due(self) -> bool {
        self.requested && !self.disabled && !self.exiting
    }
}

impl Thread {
    /// Returns whether it yields to others: it is about to yield or sleep, or it spins.
    #[inline]
    pub(crate) fn yields(&self) -> bool {
        self.pending.op.yields() || self.spin_detector.is_spinning()
    }

    pub(crate) fn new(ix: ThreadIx, tid: u32, context: Context) -> Box<Self> {
        let no_stack = libc::stack_t { ss_sp: core::ptr::null_mut(), ss_flags: libc::SS_DISABLE, ss_size: 0 };
        Box::new(Self {
            context,
            ix,
            accesses: 0,
            tid,
            handle: 0,
            start: None,
            returns_int: false,
            arg: core::ptr::null_mut(),
            result: core::ptr::null_mut(),
            children: 0,
            ended: false,
            detached: false,
            joined: false,
            forgotten: false,
            own_stack: false,
            reaped: false,
            pending: Pending {
                op: Op::Start,
                pc: 0,
                addr: 0,
                gate: Gate::Open,
                deadline: u64::MAX,
                cancellable: false,
            },
            blocked: false,
            arrival: 0,
            granted: None,
            child_ended: false,
            cancel: Cancel::default(),
            held: Vec::new(),
            read_held: Vec::new(),
            once: Vec::new(),
            alternate_stack: no_stack,
            undivided: 0,
            region_flags: NextFlags::default(),
            unseen_order: UnseenOrder::default(),
            awaited: Vec::new(),
            mask: 0,
            signals: PendingSignals::default(),
            must_check_signals: false,
            restarts: false,
            interrupted: false,
            suspended: Vec::new(),
            is_timer: false,
            stack_top: 0,
            spin_detector: SpinDetector::default(),
            timed_wait: TimedWait::default(),
        })
    }
}

/// A request to create a thread.
pub(crate) struct ThreadRequest {
    pub(crate) handle: *mut usize,
    pub(crate) attr: *const libc::pthread_attr_t,
    pub(crate) start: StartRoutine,
    pub(crate) arg: *mut c_void,
    pub(crate) returns_int: bool,
}

/// The first thread that the program creates.
const FIRST_CREATED: ThreadIx = ThreadIx(1);

impl Runtime {
    /// Creates a thread through glibc, without scheduling it yet; returns an error number on failure.
    ///
    /// This precedes the turn of the creation: glibc calls the program's allocator, which may have to wait
    /// for another thread that holds its lock. That wait needs a separate turn and event.
    pub(crate) fn create_parked(&mut self, request: &ThreadRequest) -> Result<Box<Thread>, i32> {
        let backend = self.state.backend();
        let mut thread = Thread::new(ThreadIx::MAIN, 0, Context::new_unstarted(backend));
        thread.start = Some(request.start);
        thread.returns_int = request.returns_int;
        thread.arg = request.arg;
        thread.mask = self.state.mask();
        // A kernel thread inherits its creator's mask.
        thread.context.set_added_mask(self.state.me().context.added_mask());
        thread.context.set_blocked_unblockable(self.state.me().context.blocked_unblockable());
        let record: *mut Thread = &raw mut *thread;
        let starts_on_carrier = thread_start::prepare(request.attr);
        // Only for fibers: a thread that stays a kernel thread would stay pinned to this processor.
        let affinity_guard =
            (backend == ThreadBackend::Fibers && !starts_on_carrier).then(sys::OneProcessor::pin);
        let paused = PauseGuard::new();
        // The allocator's other operations are not the program's.
        let muted = self.state.muted;
        self.state.undivided += 1;
        self.reap_ended();

        // SAFETY: the attributes are the caller's or a copy of them; the record outlives the thread.
        let error = unsafe {
            let mut attr = core::mem::MaybeUninit::<libc::pthread_attr_t>::uninit();
            let mut chosen = request.attr;
            if !chosen.is_null() {
                let mut state = 0;
                pthread_attr_getdetachstate(chosen, &raw mut state);
                if state == libc::PTHREAD_CREATE_DETACHED {
                    // The runtime joins detached threads itself: glibc must not free them early.
                    thread.detached = true;
                    attr.as_mut_ptr().write(chosen.read());
                    pthread_attr_setdetachstate(attr.as_mut_ptr(), libc::PTHREAD_CREATE_JOINABLE);
                    chosen = attr.as_ptr();
                }
            }
            let error = pthread_create(&raw mut thread.handle, chosen, enter_thread, record.cast());
            // glibc places the thread's descriptor at the end of its stack.
            thread.own_stack = error == 0 && own_stack(chosen).contains(&thread.handle);
            error
        };
        self.state.undivided -= 1;
        self.state.muted = muted;
        thread_start::finish();
        if error != 0 {
            return Err(error);
        }
        thread.context.wait_parked(self.state.log.glibc_tid(thread.handle));
        drop((affinity_guard, paused));
        Ok(thread)
    }

    /// Makes the created thread schedulable and returns its index.
    pub(crate) fn take_over(&mut self, request: &ThreadRequest, mut thread: Box<Thread>) -> ThreadIx {
        let ix = self.state.threads.len();
        if ix >= unsnarl_wire::MAX_THREADS {
            end::refuse("more than 65,536 threads");
        }
        let ix = ThreadIx(ix as u16);
        thread.ix = ix;
        thread.tid = self.state.threads[0].tid + u32::from(ix.0);
        // SAFETY: the program passed this address for the handle.
        unsafe { *request.handle = thread.handle };
        if self.state.backend() == ThreadBackend::Fibers {
            self.state.log.set_glibc_tid(thread.handle);
        }
        if debug::is_on() {
            // SAFETY: the descriptor exists: no thread can have joined this one yet.
            debug::thread_created(ix, unsafe { *self.state.log.glibc_tid(thread.handle) });
        }

        let parent = self.state.me();
        parent.children += 1;
        let (parent, nth) = (parent.ix, parent.children);
        thread.pending.pc = request.start as usize as u64 + 1;
        thread.pending.addr = u64::from(parent.0);
        let detached = thread.detached;
        self.state.threads.push(thread);
        self.state.live += 1;
        self.state.ready.set(ix, true);
        let state = &mut self.state;
        stack::run_isolated(|| {
            state.log.thread_created(ix, parent, nth, request.start as usize as u64, detached);
            state.threads[ix.index()].must_check_signals = state.next_is_arrival(ix);
        });
        if self.state.modules.is_openmp(request.start as usize as u64) {
            // OpenMP workers stay for the next parallel region and are never joined.
            self.state.log.thread_joined_or_detached(ix);
        }
        crate::access::set_several_threads(self.state.live > 1);
        if stdio::is_held() {
            self.state.expect_waits_in_libraries(0);
        }
        if ix == FIRST_CREATED && self.state.backend() == ThreadBackend::Fibers {
            watchdog::install();
        }
        ix
    }

    /// Marks an ended thread as forgotten: its handle is no longer valid.
    ///
    /// glibc frees it when it is next asked for a thread ([`Self::reap_ended`]) and not earlier: freeing
    /// takes a kernel thread, and most programs end without creating another one. Threads on a stack supplied
    /// by the program are freed now, because the program may free that stack. A snapshot keeps threads that
    /// are not freed yet, as it keeps all fibers. A child process of the program is not controlled and reaps
    /// nothing; there the C library reclaims the threads itself.
    pub(crate) fn forget(&mut self, ix: ThreadIx) {
        let thread = self.state.thread(ix);
        thread.forgotten = true;
        // Debuggers also stumble over kernel threads that only wait for the end of the program.
        if thread.own_stack || debug::is_on() {
            self.reap(ix);
        } else {
            self.state.to_reap.push(ix);
        }
    }

    /// Makes glibc free a thread that ended.
    fn reap(&mut self, thread: ThreadIx) {
        let handle = self.state.thread(thread).handle;
        let tid = self.state.log.glibc_tid(handle);
        let thread = self.state.thread(thread);
        let affinity_guard = sys::OneProcessor::pin();
        let _paused = PauseGuard::new();
        thread.context.release(tid);
        drop(affinity_guard);
        // SAFETY: the thread has ended and was not joined; glibc frees its stack.
        unsafe { pthread_join(thread.handle, core::ptr::null_mut()) };
        thread.reaped = true;
        if debug::is_on() {
            debug::thread_reaped(thread.ix);
        }
    }

    /// Makes glibc free the threads that ended and that no thread will join, in the order they were
    /// forgotten. Another thread may enter this function meanwhile; each takes the current list.
    fn reap_ended(&mut self) {
        for thread in core::mem::take(&mut self.state.to_reap) {
            self.reap(thread);
        }
    }
}

/// Returns the stack that the attributes name; an empty or unusable range if they name none.
///
/// # Safety
///
/// `attr` is null or points to initialised attributes.
unsafe fn own_stack(attr: *const libc::pthread_attr_t) -> core::ops::Range<usize> {
    let (mut lowest, mut size) = (0, 0);
    if !attr.is_null() {
        // SAFETY: `attr` points to attributes, and there is room for the results.
        unsafe { pthread_attr_getstack(attr, &raw mut lowest, &raw mut size) };
    }
    lowest..lowest.saturating_add(size)
}

/// The entry point of a thread that glibc created: parks, runs the program's routine at its turn, and ends.
/// `pthread_exit` and cancellation unwind back to this frame too.
///
/// The registered buffer is the one that `pthread_cleanup_push` registers in C: glibc jumps to it when it has
/// unwound to this frame.
#[unsafe(naked)]
unsafe extern "C-unwind" fn enter_thread(record: *mut c_void) -> *mut c_void {
    naked_asm!(
        ".cfi_startproc",
        "push rbp",
        ".cfi_def_cfa_offset 16",
        ".cfi_offset rbp, -16",
        "mov rbp, rsp",
        ".cfi_def_cfa_register rbp",
        "push rbx",
        "push r12",
        "sub rsp, 112",
        "mov rbx, rdi",
        "call {park}",
        "mov rdi, rsp",
        "xor esi, esi",
        "call {setjmp}",
        "test eax, eax",
        "jnz 2f",
        "mov rdi, rsp",
        "call {register}",
        "mov rdi, rbx",
        "call {body}",
        "mov r12, rax",
        "mov rdi, rsp",
        "call {unregister}",
        "mov rdi, rbx",
        "mov rsi, r12",
        "xor edx, edx",
        "jmp 3f",
        "2:",
        "mov rdi, rbx",
        "xor esi, esi",
        "mov edx, 1",
        "3:",
        "call {end}",
        "lea rsp, [rbp - 16]",
        "pop r12",
        "pop rbx",
        "pop rbp",
        ".cfi_def_cfa rsp, 8",
        "ret",
        ".cfi_endproc",
        park = sym park_thread,
        setjmp = sym __sigsetjmp,
        register = sym __pthread_register_cancel,
        unregister = sym __pthread_unregister_cancel,
        body = sym thread_body,
        end = sym thread_end,
    )
}

/// The equivalent for the main thread, which exists already: wraps `main(argc, argv, envp)`.
#[unsafe(naked)]
pub(crate) unsafe extern "C-unwind" fn enter_main(argc: i32, argv: *mut *mut u8, envp: *mut *mut u8) -> i32 {
    naked_asm!(
        ".cfi_startproc",
        "push rbp",
        ".cfi_def_cfa_offset 16",
        ".cfi_offset rbp, -16",
        "mov rbp, rsp",
        ".cfi_def_cfa_register rbp",
        "push rbx",
        "push r12",
        "push r13",
        "push r14",
        "sub rsp, 112",
        "mov ebx, edi",
        "mov r12, rsi",
        "mov r13, rdx",
        "mov rdi, rsp",
        "xor esi, esi",
        "call {setjmp}",
        "test eax, eax",
        "jnz 2f",
        "mov rdi, rsp",
        "call {register}",
        "mov edi, ebx",
        "mov rsi, r12",
        "mov rdx, r13",
        "call {body}",
        "mov ebx, eax",
        "mov rdi, rsp",
        "call {unregister}",
        "mov eax, ebx",
        "lea rsp, [rbp - 32]",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbx",
        "pop rbp",
        ".cfi_remember_state",
        ".cfi_def_cfa rsp, 8",
        "ret",
        ".cfi_restore_state",
        "2:",
        "call {end}",
        "ud2",
        ".cfi_endproc",
        setjmp = sym __sigsetjmp,
        register = sym __pthread_register_cancel,
        unregister = sym __pthread_unregister_cancel,
        body = sym crate::init::call_main,
        end = sym main_end,
    )
}

unsafe extern "C" {
    fn __sigsetjmp(buffer: *mut c_void, save_mask: i32) -> i32;
    fn __pthread_register_cancel(buffer: *mut c_void);
    fn __pthread_unregister_cancel(buffer: *mut c_void);
}

/// Parks a thread that glibc created until the first switch to it.
unsafe extern "C" fn park_thread(record: *mut Thread) {
    // SAFETY: the record belongs to this thread; its creator waits until it has parked.
    let thread = unsafe { &mut *record };
    crate::init::leave_rseq();
    thread.stack_top = core::ptr::from_ref(&thread) as usize + 512;
    thread.context.park();
}

/// Runs the thread's routine under control.
unsafe extern "C-unwind" fn thread_body(record: *mut Thread) -> *mut c_void {
    // SAFETY: the record outlives the thread, and the routine is the program's.
    unsafe {
        if let Some(runtime) = Runtime::enter() {
            runtime.arrive();
            let pending = (*record).pending;
            runtime.log(Op::Start, Flags::NONE, pending.pc, 0, pending.addr);
        }
        let Some(start) = (*record).start else { return core::ptr::null_mut() };
        let result = start((*record).arg);
        if (*record).returns_int { result as usize as i32 as isize as *mut c_void } else { result }
    }
}

/// Ends a thread whose routine returned or was unwound.
unsafe extern "C-unwind" fn thread_end(record: *mut Thread, value: *mut c_void, unwound: i32) -> *mut c_void {
    // SAFETY: the record outlives the thread.
    unsafe {
        if unwound == 0 {
            (*record).result = value;
        }
        (*record).cancel.exiting = true;
        run_destructors();
        if let Some(runtime) = Runtime::enter() {
            runtime.leave();
        }
        // Only a thread with its own kernel thread gets here; it runs glibc's epilogue.
        (*record).result
    }
}

/// Ends the main thread after `pthread_exit` unwound it; the other threads go on.
unsafe extern "C-unwind" fn main_end() {
    // SAFETY: as in `thread_end`.
    unsafe { run_destructors() };
    if let Some(runtime) = Runtime::enter() {
        runtime.leave();
    }
}

/// Runs the destructors that glibc would run at thread exit, here where they can be scheduled.
unsafe fn run_destructors() {
    // SAFETY: these are the calling thread's destructors.
    unsafe {
        __call_tls_dtors();
        crate::hooks::key::run_destructors();
    }
}

impl Runtime {
    /// Logs the current thread's last event and switches to another thread for good.
    fn leave(&mut self) {
        // A thread's end has no source line: its start routine is reported instead.
        let pc = self.state.log.thread(self.state.current).start + 1;
        self.turn(Op::End, 0, pc);
        let state = &mut self.state;
        crate::hooks::mutex::orphan(state);
        let me = state.me();
        me.ended = true;
        let (ix, detached, result) = (me.ix, me.detached, me.result as u64);
        self.log(Op::End, Flags::NONE, pc, 0, result);
        let state = &mut self.state;
        state.log.thread_ended(ix);
        if state.live == 1 + u32::from(state.timers.thread.is_some()) {
            // The last thread ends the program, as in glibc.
            // SAFETY: `exit` may be called from any thread.
            unsafe { exit(0) };
        }
        state.live -= 1;
        state.ready.set(ix, false);
        if debug::is_on() {
            debug::thread_ended(ix);
        }
        if detached {
            state.to_reap.push(ix);
        }
        let mut next = 0;
        while let Some(waiter) = state.waiting.first_from(next) {
            next = waiter.index() + 1;
            if state.thread(waiter).pending.gate == Gate::Join(ix) {
                state.reclassify(waiter);
            }
        }
        crate::access::set_several_threads(state.live > 1);
        self.switch_away();
    }
}
