//! Memory accesses of instrumented code: the `__tsan_*` functions that compilers call.
//!
//! Plain accesses return at once, after two instructions, unless they are observed and several threads are
//! alive. Atomic ones perform the operation, as the compiler expects.

use crate::{
    partial_stores,
    state::{Runtime, State},
};
use core::{
    arch::naked_asm,
    sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering},
};
use unsnarl_model::{Flags, Op, Order, Points};
use unsnarl_race::Access;
use unsnarl_sched::Rng;

/// True while plain accesses are observed.
static OBSERVING: AtomicBool = AtomicBool::new(false);
/// True if the plan asks to observe them at all.
static ENABLED: AtomicBool = AtomicBool::new(false);
/// True if accesses are logged from the beginning of the program, in addition to those that are schedule points.
static LOGGING: AtomicBool = AtomicBool::new(false);
/// The plan's point set, by number.
static PLANNED_POINTS: AtomicU8 = AtomicU8::new(0);
/// The point set at this moment: one thread alone has no points among its plain accesses.
static POINTS: AtomicU8 = AtomicU8::new(0);
/// One access in this many is a schedule point.
static ONE_IN: AtomicU32 = AtomicU32::new(1);
/// The seed that decides which one.
static SAMPLE_SEED: AtomicU64 = AtomicU64::new(0);

pub(crate) fn configure(points: u8, one_in: u32, sample_seed: u64, watched: bool, logged: bool) {
    PLANNED_POINTS.store(points, Ordering::Relaxed);
    POINTS.store(points, Ordering::Relaxed);
    LOGGING.store(logged, Ordering::Relaxed);
    ONE_IN.store(one_in.max(1), Ordering::Relaxed);
    SAMPLE_SEED.store(sample_seed, Ordering::Relaxed);
    ENABLED.store(watched || points != Points::Sync as u8, Ordering::Relaxed);
}

/// Samples accesses by this seed from now on.
pub(crate) fn set_sample_seed(seed: u64) {
    SAMPLE_SEED.store(seed, Ordering::Relaxed);
}

/// Observes accesses only while several threads are alive, unless all are logged.
pub(crate) fn set_several_threads(several: bool) {
    let logging = LOGGING.load(Ordering::Relaxed);
    if logging {
        let points = if several { PLANNED_POINTS.load(Ordering::Relaxed) } else { Points::Sync as u8 };
        POINTS.store(points, Ordering::Relaxed);
    }
    OBSERVING.store(logging || several && ENABLED.load(Ordering::Relaxed), Ordering::Relaxed);
}

/// Returns whether accesses are observed now.
#[inline]
pub(crate) fn is_observing() -> bool {
    OBSERVING.load(Ordering::Relaxed)
}

impl Runtime {
    /// Returns whether the running thread's access at this site is a schedule point.
    #[inline]
    pub(crate) fn is_point(&mut self, pc: u64) -> bool {
        const ALL: u8 = Points::All as u8;
        const PLACES: u8 = Points::Places as u8;
        let chosen = match POINTS.load(Ordering::Relaxed) {
            ALL => true,
            PLACES => self.state.places.contain(pc),
            _ => false,
        };
        chosen && (ONE_IN.load(Ordering::Relaxed) == 1 || self.is_sampled())
    }

    /// Executes a plain access, or a part of one, that is a schedule point; returns the bytes before it.
    #[inline]
    pub(crate) fn log_part(&mut self, op: Op, addr: usize, size: u64, pc: u64) -> u64 {
        self.turn(op, addr, pc);
        let own_stack = self.is_on_own_stack(addr);
        let thread = self.state.current;
        self.watch(&Access { thread, op, addr: addr as u64, size, own_stack, tag: pc });
        // SAFETY: the program is about to access these bytes itself.
        let value = unsafe { value_at(addr, size) };
        let flags = if own_stack { Flags::OWN_STACK } else { Flags::NONE };
        self.log_watched(op, flags, pc, (addr, size), value);
        value
    }

    /// Logs an access that is a schedule point and was watched.
    #[inline]
    pub(crate) fn log_watched(
        &mut self,
        op: Op,
        flags: Flags,
        pc: u64,
        (addr, size): (usize, u64),
        value: u64,
    ) {
        let State { access_log, log, muted, .. } = &mut self.state;
        if access_log.is_on() && !*muted {
            access_log.mark_event(log, op, addr);
        }
        self.log_access(op, flags, pc, (addr, size, Order::Relaxed), value);
    }

    /// Returns whether an address is in a frame of the running thread.
    #[inline]
    pub(crate) fn is_on_own_stack(&mut self, addr: usize) -> bool {
        let here = &raw const addr as usize;
        (here..self.state.me().stack_top).contains(&addr)
    }

    /// Samples accesses by the thread's own count, so that other threads do not influence which ones are
    /// chosen.
    fn is_sampled(&mut self) -> bool {
        let me = self.state.me();
        me.accesses += 1;
        let mut dice = Rng::new(SAMPLE_SEED.load(Ordering::Relaxed) ^ u64::from(me.ix.0) << 48 ^ me.accesses);
        dice.below(ONE_IN.load(Ordering::Relaxed)) == 0
    }
}

/// Handles a plain access: a schedule point, or only input to the race detector.
#[inline]
fn plain_access(op: Op, addr: usize, size: u64, pc: u64) {
    let Some(runtime) = Runtime::enter() else { return };
    if runtime.is_point(pc) {
        if op == Op::Write && size <= 8 && partial_stores::contains(pc, size) {
            runtime.store_part(addr, size, pc);
        } else {
            runtime.log_part(op, addr, size, pc);
        }
    } else {
        let own_stack = runtime.is_on_own_stack(addr);
        let thread = runtime.state.current;
        runtime.watch(&Access { thread, op, addr: addr as u64, size, own_stack, tag: pc });
    }
}

/// Reads up to eight bytes at an address.
#[inline]
pub(crate) unsafe fn value_at(addr: usize, size: u64) -> u64 {
    // SAFETY: the caller's contract; unaligned reads are fine.
    unsafe {
        match size {
            1 => u64::from((addr as *const u8).read_unaligned()),
            2 => u64::from((addr as *const u16).read_unaligned()),
            4 => u64::from((addr as *const u32).read_unaligned()),
            0 | 3 | 5..=7 => {
                (0..size as usize).fold(0, |v, at| v | u64::from(*((addr + at) as *const u8)) << (8 * at))
            }
            _ => (addr as *const u64).read_unaligned(),
        }
    }
}

extern "C-unwind" fn read<const SIZE: u64>(addr: usize, pc: u64) {
    plain_access(Op::Read, addr, SIZE, pc);
}

extern "C-unwind" fn write<const SIZE: u64>(addr: usize, pc: u64) {
    plain_access(Op::Write, addr, SIZE, pc);
}

extern "C-unwind" fn read_write<const SIZE: u64>(addr: usize, pc: u64) {
    plain_access(Op::Read, addr, SIZE, pc);
    plain_access(Op::Write, addr, SIZE, pc);
}

extern "C-unwind" fn read_range(addr: usize, size: usize, pc: u64) {
    range(Op::Read, addr, size, pc);
}

extern "C-unwind" fn write_range(addr: usize, size: usize, pc: u64) {
    range(Op::Write, addr, size, pc);
}

/// Handles an access to many bytes, also those of functions of the C library, before the access is made.
pub(crate) fn range(op: Op, addr: usize, size: usize, pc: u64) {
    if size > 0 && OBSERVING.load(Ordering::Relaxed) && !(op == Op::Read && is_constant(addr)) {
        plain_access(op, addr, size as u64, pc);
    }
}

/// Returns whether nothing can write to this address, such as a string literal: reads of it are no accesses.
fn is_constant(addr: usize) -> bool {
    Runtime::enter().is_some_and(|runtime| runtime.state.modules.is_constant(addr as u64))
}

/// Defines entry points of plain accesses: the exported names and the handler, which gets the return address
/// in the next free argument register.
macro_rules! plain_entries {
    ($($register:literal $handler:path: $($name:ident)*;)*) => {
        $($(
            #[unsafe(naked)]
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name() {
                naked_asm!(
                    "cmp byte ptr [rip + {on}], 0",
                    "jne 2f",
                    "ret",
                    "2:",
                    concat!("mov ", $register, ", [rsp]"),
                    "jmp {handler}",
                    on = sym OBSERVING,
                    handler = sym $handler,
                )
            }
        )*)*
    };
}

plain_entries! {
    "rsi" read::<1>: __tsan_read1 __tsan_volatile_read1;
    "rsi" read::<2>: __tsan_read2 __tsan_unaligned_read2 __tsan_volatile_read2 __tsan_unaligned_volatile_read2;
    "rsi" read::<4>: __tsan_read4 __tsan_unaligned_read4 __tsan_volatile_read4 __tsan_unaligned_volatile_read4;
    "rsi" read::<8>: __tsan_read8 __tsan_unaligned_read8 __tsan_volatile_read8 __tsan_unaligned_volatile_read8 __tsan_vptr_read;
    "rsi" read::<16>: __tsan_read16 __tsan_unaligned_read16 __tsan_volatile_read16 __tsan_unaligned_volatile_read16;
    "rsi" write::<1>: __tsan_write1 __tsan_volatile_write1;
    "rsi" write::<2>: __tsan_write2 __tsan_unaligned_write2 __tsan_volatile_write2 __tsan_unaligned_volatile_write2;
    "rsi" write::<4>: __tsan_write4 __tsan_unaligned_write4 __tsan_volatile_write4 __tsan_unaligned_volatile_write4;
    "rsi" write::<8>: __tsan_write8 __tsan_unaligned_write8 __tsan_volatile_write8 __tsan_unaligned_volatile_write8;
    "rdx" write_pointer: __tsan_vptr_update;
    "rsi" write::<16>: __tsan_write16 __tsan_unaligned_write16 __tsan_volatile_write16 __tsan_unaligned_volatile_write16;
    "rsi" read_write::<1>: __tsan_read_write1;
    "rsi" read_write::<2>: __tsan_read_write2 __tsan_unaligned_read_write2;
    "rsi" read_write::<4>: __tsan_read_write4 __tsan_unaligned_read_write4;
    "rsi" read_write::<8>: __tsan_read_write8 __tsan_unaligned_read_write8;
    "rsi" read_write::<16>: __tsan_read_write16 __tsan_unaligned_read_write16;
    "rdx" read_range: __tsan_read_range;
    "rdx" write_range: __tsan_write_range;
}

extern "C-unwind" fn write_pointer(addr: usize, _new: usize, pc: u64) {
    plain_access(Op::Write, addr, 8, pc);
}

/// Entry points that do nothing: call stacks come from unwinding, and the operations that the annotations
/// describe to TSan are modelled.
macro_rules! no_ops {
    ($($name:ident)*) => {
        $(
            #[unsafe(naked)]
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name() {
                naked_asm!("xor eax, eax", "ret")
            }
        )*
    };
}

no_ops! {
    __tsan_init __tsan_func_entry __tsan_func_exit __tsan_ignore_thread_begin __tsan_ignore_thread_end
    __tsan_acquire __tsan_release __tsan_mutex_create __tsan_mutex_destroy __tsan_mutex_pre_lock
    __tsan_mutex_post_lock __tsan_mutex_pre_unlock __tsan_mutex_post_unlock __tsan_mutex_pre_signal
    __tsan_mutex_post_signal __tsan_mutex_pre_divert __tsan_mutex_post_divert __tsan_get_current_fiber
    __tsan_create_fiber __tsan_destroy_fiber __tsan_switch_to_fiber __tsan_set_fiber_name
    __tsan_external_register_tag __tsan_external_assign_tag __tsan_external_read __tsan_external_write
    AnnotateHappensBefore AnnotateHappensAfter AnnotateIgnoreReadsBegin AnnotateIgnoreReadsEnd
    AnnotateIgnoreWritesBegin AnnotateIgnoreWritesEnd AnnotateIgnoreSyncBegin AnnotateIgnoreSyncEnd
    AnnotateRWLockCreate AnnotateRWLockDestroy AnnotateRWLockAcquired AnnotateRWLockReleased
    AnnotateBenignRace AnnotateBenignRaceSized AnnotateNewMemory AnnotateThreadName AnnotateFlushState
    AnnotateEnableRaceDetection WTFAnnotateHappensBefore WTFAnnotateHappensAfter
}
