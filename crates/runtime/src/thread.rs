//! Threads: their records, birth and end.

use crate::{
    context::{Context, ThreadBackend},
    debug,
    dispatch::PauseGuard,
    end,
    gate::Gate,
    hooks::{mutex::Held, stdio},
    real::real,
    rewind::thread_start,
    signals::{Queue, SuspendedWait},
    stack,
    state::Runtime,
    sys, watchdog,
};
use alloc::{boxed::Box, vec::Vec};
use core::{arch::naked_asm, cell::UnsafeCell, ffi::c_void};
use unsnarl_model::{Flags, Op, ThreadIx};
use unsnarl_sched::SpinDetector;

real! {
    fn pthread_create(thread: *mut usize, attr: *const libc::pthread_attr_t, start: Start, arg: *mut c_void) -> i32;
    fn pthread_join(thread: usize, result: *mut *mut c_void) -> i32;
    fn pthread_attr_setdetachstate(attr: *mut libc::pthread_attr_t, state: i32) -> i32;
    fn pthread_attr_getdetachstate(attr: *const libc::pthread_attr_t, state: *mut i32) -> i32;
    fn pthread_attr_getstack(attr: *const libc::pthread_attr_t, lowest: *mut usize, size: *mut usize) -> i32;
    fn __call_tls_dtors();
    fn exit(status: i32) -> !;
}

/// What a thread runs.
pub(crate) type Start = unsafe extern "C-unwind" fn(*mut c_void) -> *mut c_void;

pub(crate) struct Thread {
    pub(crate) context: Context,
    pub(crate) ix: ThreadIx,
    /// What `gettid` answers and what locks keep as their owner.
    pub(crate) tid: u32,
    /// Its `pthread_t`.
    pub(crate) handle: usize,
    pub(crate) start: Option<Start>,
    /// C11 threads return an int.
    pub(crate) returns_int: bool,
    pub(crate) arg: *mut c_void,
    pub(crate) result: *mut c_void,
    pub(crate) children: u32,
    /// Accesses that might have been points, where only some are.
    pub(crate) accesses: u64,
    pub(crate) ended: bool,
    pub(crate) detached: bool,
    /// Somebody is joining it.
    pub(crate) joined: bool,
    /// It was joined, or detached after its end: its handle means nobody any more.
    pub(crate) forgotten: bool,
    /// Its stack is the program's own, who may free it as soon as nobody can run on it.
    own_stack: bool,
    /// glibc has freed it; the handle may be another thread's by now.
    pub(crate) reaped: bool,
    pub(crate) pending: Pending,
    /// Whether it could not go on when its wait began.
    pub(crate) blocked: bool,
    /// When it began to wait, see [`crate::queue`].
    pub(crate) arrival: u64,
    /// The event that woke it by name (a broadcast).
    pub(crate) granted: Option<u64>,
    /// A child that it waits for ended.
    pub(crate) child_ended: bool,
    pub(crate) cancel: Cancel,
    /// Mutexes it holds, in the order of taking.
    pub(crate) held: Vec<Held>,
    /// Read-write locks it holds for reading.
    pub(crate) read_held: Vec<usize>,
    /// Routines of `pthread_once` that it is in.
    pub(crate) once: Vec<(unsafe extern "C-unwind" fn(), usize, *const i32)>,
    pub(crate) alternate_stack: libc::stack_t,
    /// Depth of regions in which it wants nobody else to run.
    pub(crate) undivided: u32,
    /// The descriptors that it waits for, see [`Gate::Descriptors`].
    pub(crate) awaited: Vec<UnsafeCell<libc::pollfd>>,
    /// Its signal mask, while it does not run or nobody's was ever changed.
    pub(crate) mask: u64,
    /// Signals that were sent to it.
    pub(crate) signals: Queue,
    /// It has to look, when it is its turn, whether a signal is there for it or it is to be cancelled at any moment.
    pub(crate) must_check_signals: bool,
    /// Whether the handler that ran last lets what it interrupted begin anew.
    pub(crate) restarts: bool,
    /// A handler has run, and what it interrupted is about to fail.
    pub(crate) interrupted: bool,
    /// Waits that it left to handle a signal.
    pub(crate) suspended: Vec<SuspendedWait>,
    /// It is the one that makes timers fire.
    pub(crate) is_timer: bool,
    /// Where its stack begins; it grows down from here.
    pub(crate) stack_top: usize,
    /// What it did in vain of late.
    pub(crate) spin_detector: SpinDetector,
}

/// What a thread is about to do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pending {
    pub(crate) op: Op,
    pub(crate) pc: u64,
    pub(crate) addr: u64,
    pub(crate) gate: Gate,
    /// In virtual time; `u64::MAX` for never.
    pub(crate) deadline: u64,
    pub(crate) cancellable: bool,
}

/// Where a thread stands with `pthread_cancel`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cancel {
    pub(crate) requested: bool,
    pub(crate) disabled: bool,
    pub(crate) asynchronous: bool,
    /// It is on its way out: cleanup handlers and destructors are not interrupted, whatever they enable.
    pub(crate) exiting: bool,
}

impl Cancel {
    /// Whether the thread must stop at its next cancellation point.
    pub(crate) const fn is_due(self) -> bool {
        self.requested && !self.disabled && !self.exiting
    }
}

impl Thread {
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
            awaited: Vec::new(),
            mask: 0,
            signals: Queue::default(),
            must_check_signals: false,
            restarts: false,
            interrupted: false,
            suspended: Vec::new(),
            is_timer: false,
            stack_top: 0,
            spin_detector: SpinDetector::default(),
        })
    }
}

/// A request for a thread.
pub(crate) struct ThreadRequest {
    pub(crate) handle: *mut usize,
    pub(crate) attr: *const libc::pthread_attr_t,
    pub(crate) start: Start,
    pub(crate) arg: *mut c_void,
    pub(crate) returns_int: bool,
}

/// The first thread that the program makes.
const FIRST_MADE: ThreadIx = ThreadIx(1);

impl Runtime {
    /// Has glibc make a thread, which is nobody's until it is taken over; an error number otherwise.
    ///
    /// This comes before the turn of the creation: the program's allocator, which glibc calls, may have to wait for another thread that
    /// holds its lock, by a turn and an event of its own.
    pub(crate) fn make(&mut self, request: &ThreadRequest) -> Result<Box<Thread>, i32> {
        let backend = self.state.backend();
        let mut thread = Thread::new(ThreadIx::MAIN, 0, Context::new_unstarted(backend));
        thread.start = Some(request.start);
        thread.returns_int = request.returns_int;
        thread.arg = request.arg;
        thread.mask = self.state.mask();
        let record: *mut Thread = &raw mut *thread;
        let is_born_here = thread_start::begin(request.attr);
        // A thread that stays a kernel thread would keep the processor that it is made on.
        let together = (backend == ThreadBackend::Fibers && !is_born_here).then(sys::OneProcessor::stay);
        let paused = PauseGuard::new();
        // What else the allocator does is no business of the program's.
        let muted = self.state.muted;
        self.state.undivided += 1;
        self.reap_ended();

        // SAFETY: attributes are the caller's or a copy of them; the record outlives the thread.
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
            // A thread's descriptor lies at the end of its stack.
            thread.own_stack = error == 0 && own_stack(chosen).contains(&thread.handle);
            error
        };
        self.state.undivided -= 1;
        self.state.muted = muted;
        thread_start::end();
        if error != 0 {
            return Err(error);
        }
        thread.context.wait_parked();
        drop((together, paused));
        Ok(thread)
    }

    /// From now on it is one of those that can be scheduled.
    pub(crate) fn take_over(&mut self, request: &ThreadRequest, mut thread: Box<Thread>) -> ThreadIx {
        let ix = self.state.threads.len();
        if ix >= unsnarl_wire::MAX_THREADS {
            end::refuse("more than 65,536 threads");
        }
        let ix = ThreadIx(ix as u16);
        thread.ix = ix;
        thread.tid = self.state.threads[0].tid + u32::from(ix.0);
        // SAFETY: the program's own place.
        unsafe { *request.handle = thread.handle };
        if self.state.backend() == ThreadBackend::Fibers {
            self.state.log.set_glibc_tid(thread.handle);
        }
        if debug::is_on() {
            // SAFETY: the descriptor is there: nobody can have joined the thread yet.
            debug::born(ix, unsafe { *self.state.log.glibc_tid(thread.handle) });
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
            // They stay for the next parallel region, and nobody ever joins them.
            self.state.log.thread_joined_or_detached(ix);
        }
        crate::access::several_threads(self.state.live > 1);
        if stdio::is_held() {
            self.state.expect_waits_in_libraries(0);
        }
        if ix == FIRST_MADE && self.state.backend() == ThreadBackend::Fibers {
            watchdog::expect();
        }
        ix
    }

    /// A thread that ended is nobody's business any more.
    ///
    /// glibc gets to free it when it is next asked for a thread ([`Self::reap_ended`]), and not before: that takes a kernel
    /// thread, and most programs end without another one. But what lies on a stack of the program's own cannot wait: the
    /// program may free it now. A snapshot takes those that wait along as it does all fibers; a child of the program's, where the
    /// C library reclaims them itself, is under nobody's control and reaps nobody.
    pub(crate) fn forget(&mut self, ix: ThreadIx) {
        let thread = self.state.thread(ix);
        thread.forgotten = true;
        // Nor do debuggers have patience with kernel threads that only wait for the end of the program.
        if thread.own_stack || debug::is_on() {
            self.reap(ix);
        } else {
            self.state.to_reap.push(ix);
        }
    }

    /// Lets glibc free a thread that ended.
    fn reap(&mut self, thread: ThreadIx) {
        let handle = self.state.thread(thread).handle;
        let tid = self.state.log.glibc_tid(handle);
        let thread = self.state.thread(thread);
        let together = sys::OneProcessor::stay();
        let _paused = PauseGuard::new();
        thread.context.release(tid);
        drop(together);
        // SAFETY: the thread is gone and nobody joined it; glibc frees its stack.
        unsafe { pthread_join(thread.handle, core::ptr::null_mut()) };
        thread.reaped = true;
        if debug::is_on() {
            debug::reaped(thread.ix);
        }
    }

    /// Lets glibc free threads that ended and that nobody will join, the one that was forgotten first first. While it frees, others may
    /// come here: each takes what is there.
    fn reap_ended(&mut self) {
        for thread in core::mem::take(&mut self.state.to_reap) {
            self.reap(thread);
        }
    }
}

/// The stack that these attributes name; empty, or where nothing can lie, if they name none.
///
/// # Safety
///
/// They are attributes, or null.
unsafe fn own_stack(attr: *const libc::pthread_attr_t) -> core::ops::Range<usize> {
    let (mut lowest, mut size) = (0, 0);
    if !attr.is_null() {
        // SAFETY: attributes, and room for the answers.
        unsafe { pthread_attr_getstack(attr, &raw mut lowest, &raw mut size) };
    }
    lowest..lowest.saturating_add(size)
}

/// Where a thread begins that glibc made for us: parks, runs the program's routine when it is its turn, comes
/// back here also when `pthread_exit` or a cancellation unwinds it, and ends.
///
/// The registered buffer is what `pthread_cleanup_push` in C registers: glibc jumps to it when it has
/// unwound as far as this frame.
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

/// The same for main, which is there already: `main(argc, argv, envp)` wrapped.
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

/// On the thread glibc made: steps aside until first switched to.
unsafe extern "C" fn park_thread(record: *mut Thread) {
    // SAFETY: the record is ours; its creator waits until we parked.
    let thread = unsafe { &mut *record };
    crate::init::leave_rseq();
    thread.stack_top = core::ptr::from_ref(&thread) as usize + 512;
    thread.context.park();
}

/// Under control: the thread's whole life.
unsafe extern "C-unwind" fn thread_body(record: *mut Thread) -> *mut c_void {
    // SAFETY: the record outlives the thread, and the routine is the program's own.
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

/// The thread's routine returned, or was unwound.
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
        // Only a kernel thread of its own comes here, to run glibc's epilogue.
        (*record).result
    }
}

/// Main was unwound by `pthread_exit`: the others go on without it.
unsafe extern "C-unwind" fn main_end() {
    // SAFETY: as in `thread_end`.
    unsafe { run_destructors() };
    if let Some(runtime) = Runtime::enter() {
        runtime.leave();
    }
}

/// What glibc would do on the way out, but here, where it can be scheduled.
unsafe fn run_destructors() {
    // SAFETY: the calling thread's own.
    unsafe {
        __call_tls_dtors();
        crate::hooks::key::run_destructors();
    }
}

impl Runtime {
    /// The current thread's last event; somebody else goes on.
    fn leave(&mut self) {
        // A thread's end has no line of its own: it is told of its start routine.
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
            // The last one out ends the program, as glibc does.
            // SAFETY: `exit` may be called from any thread.
            unsafe { exit(0) };
        }
        state.live -= 1;
        state.ready.set(ix, false);
        if debug::is_on() {
            debug::ended(ix);
        }
        if detached {
            state.to_reap.push(ix);
        }
        let mut n = 0;
        while let Some(waiter) = state.waiting.nth(n) {
            n += 1;
            if state.thread(waiter).pending.gate == Gate::Join(ix) {
                state.reclassify(waiter);
            }
        }
        crate::access::several_threads(state.live > 1);
        self.switch_away();
    }
}
