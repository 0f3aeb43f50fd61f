//! Allocation functions of instrumented programs, redirected here by `--wrap`. Where accesses are schedule
//! points, so are these calls: a freed and reallocated block counts as new memory, and a premature free is
//! detected.

use crate::{
    access,
    conflicts::ReportContext,
    real::{Real, real},
    state::{Runtime, State},
};
use core::{
    ffi::{CStr, c_void},
    sync::atomic::{AtomicBool, Ordering},
};
use unsnarl_model::{Flags, Op};
use unsnarl_race::Access;

type Block = *mut c_void;
type Realloc = unsafe extern "C-unwind" fn(Block, usize) -> Block;
type PosixMemalign = unsafe extern "C-unwind" fn(*mut Block, usize, usize) -> i32;

real! {
    fn malloc(size: usize) -> Block;
    fn calloc(count: usize, size: usize) -> Block;
    fn realloc(block: Block, size: usize) -> Block;
    fn free(block: Block);
    fn aligned_alloc(alignment: usize, size: usize) -> Block;
    fn memalign(alignment: usize, size: usize) -> Block;
    fn posix_memalign(place: *mut Block, alignment: usize, size: usize) -> i32;
    fn malloc_usable_size(block: Block) -> usize;
}

/// Declares a function of the C++ library: `fn name(args) = substitute`, which is called if the program does not
/// have that library.
macro_rules! cxx {
    ($(fn $name:ident($($arg:ident: $type:ty),*) $(-> $ret:ty)? = $substitute:expr;)*) => {
        $(
            #[allow(non_snake_case, reason = "the C++ function's name")]
            unsafe extern "C-unwind" fn $name($($arg: $type),*) $(-> $ret)? {
                static REAL: Real = Real::new(
                    // SAFETY: a literal with a zero appended.
                    unsafe { CStr::from_bytes_with_nul_unchecked(concat!(stringify!($name), "\0").as_bytes()) });
                static IS_MISSING: AtomicBool = AtomicBool::new(false);
                type Function = unsafe extern "C-unwind" fn($($type),*) $(-> $ret)?;
                if !IS_MISSING.load(Ordering::Relaxed) {
                    if let Some(found) = REAL.find() {
                        // SAFETY: the symbol is the function declared by the same name and signature, and the
                        // arguments are passed on as received.
                        return unsafe { core::mem::transmute::<*mut c_void, Function>(found)($($arg),*) };
                    }
                    IS_MISSING.store(true, Ordering::Relaxed);
                }
                // SAFETY: as above.
                unsafe { $substitute }
            }
        )*
    };
}

cxx! {
    fn _Znwm(size: usize) -> Block = allocate(size);
    fn _Znam(size: usize) -> Block = allocate(size);
    fn _ZdlPv(block: Block) = free(block);
    fn _ZdaPv(block: Block) = free(block);
    fn _ZdlPvm(block: Block, _size: usize) = free(block);
    fn _ZdaPvm(block: Block, _size: usize) = free(block);
}

/// Allocates for `operator new`. Without the C++ library there is no exception to throw.
unsafe fn allocate(size: usize) -> Block {
    // SAFETY: any size can be asked for.
    let block = unsafe { malloc(size.max(1)) };
    if block.is_null() {
        // SAFETY: ends the program.
        unsafe { libc::abort() }
    }
    block
}

/// Exports the two entries of a wrapper. Its last two parameters are the caller's address and the function that the
/// program was linked with. The object file that `unsnarl cc` links into programs passes that in r11; programs that were
/// linked with `--wrap` alone do not have it.
macro_rules! entries {
    ($pc:literal $real:literal $function:literal, $handler:path) => {
        const _: () = {
            #[unsafe(naked)]
            #[unsafe(export_name = concat!("__wrap_", $function))]
            unsafe extern "C" fn redirected() {
                core::arch::naked_asm!(
                    concat!("mov ", $pc, ", [rsp]"),
                    concat!("xor ", $real, ", ", $real),
                    "jmp {}",
                    sym $handler
                )
            }

            #[unsafe(naked)]
            #[unsafe(export_name = concat!("unsnarl_", $function))]
            unsafe extern "C" fn passed_on() {
                core::arch::naked_asm!(
                    concat!("mov ", $pc, ", [rsp]"),
                    concat!("mov ", $real, ", r11"),
                    "jmp {}",
                    sym $handler
                )
            }
        };
    };
}

/// Returns the run if accesses are observed now.
fn observing_run() -> Option<&'static mut Runtime> {
    if access::is_observing() { Runtime::enter() } else { None }
}

impl Runtime {
    /// Allocates, at a schedule point if the site is one; `allocate` returns its result and the block.
    fn allocate<T>(&mut self, size: usize, pc: u64, allocate: impl FnOnce() -> (T, Block)) -> T {
        let is_point = self.is_point(pc);
        if is_point {
            self.turn(Op::Alloc, 0, pc);
        }
        let (result, block) = allocate();
        let size = size as u64;
        if let Some(conflicts) = self.state.conflicts.as_mut().filter(|_| !block.is_null()) {
            conflicts.forget(block as usize, size);
        }
        self.note_block(Op::Alloc, block, size, pc);
        if is_point {
            let flags = if block.is_null() { Flags::FAILED } else { Flags::NONE };
            self.log_watched(Op::Alloc, flags, pc, (block as usize, size), 0);
        }
        result
    }

    /// Adds an allocation or a free to the log of accesses.
    fn note_block(&mut self, op: Op, block: Block, size: u64, pc: u64) {
        let State { access_log, log, current, .. } = &mut self.state;
        if access_log.is_on() && !block.is_null() {
            let thread = *current;
            access_log.note(log, &Access { thread, op, addr: block as u64, size, own_stack: false, tag: pc });
        }
    }
}

/// Defines an allocation wrapper: a schedule point, the call and the event.
macro_rules! allocations {
    ($($name:literal $pc:literal $real:literal $function:ident($($arg:ident: $type:ty),*), $size:expr;)*) => {
        $(const _: () = {
            type Function = unsafe extern "C-unwind" fn($($type),*) -> Block;
            unsafe extern "C-unwind" fn wrapper($($arg: $type,)* pc: u64, real: Option<Function>) -> Block {
                let function = real.unwrap_or($function);
                // SAFETY: the program's call, passed on unchanged.
                unsafe {
                    let Some(runtime) = observing_run() else { return function($($arg),*) };
                    runtime.allocate($size, pc, || {
                        let block = function($($arg),*);
                        (block, block)
                    })
                }
            }
            entries!($pc $real $name, wrapper);
        };)*
    };
}

allocations! {
    "malloc" "rsi" "rdx" malloc(size: usize), size;
    "calloc" "rdx" "rcx" calloc(count: usize, size: usize), count.saturating_mul(size);
    "aligned_alloc" "rdx" "rcx" aligned_alloc(alignment: usize, size: usize), size;
    "memalign" "rdx" "rcx" memalign(alignment: usize, size: usize), size;
    "_Znwm" "rsi" "rdx" _Znwm(size: usize), size;
    "_Znam" "rsi" "rdx" _Znam(size: usize), size;
}

/// Logs that a block is about to be freed.
unsafe fn note_free(block: Block, pc: u64) {
    if block.is_null() {
        return;
    }
    if let Some(runtime) = observing_run() {
        let is_point = runtime.is_point(pc);
        if is_point {
            runtime.turn(Op::Free, block as usize, pc);
        }
        // SAFETY: the block is allocated, unless the program is in error.
        let size = unsafe { malloc_usable_size(block) } as u64;
        runtime.note_block(Op::Free, block, size, pc);
        let stack_top = runtime.state.me().stack_top;
        let State { conflicts, log, modules, current, .. } = &mut runtime.state;
        if let Some(conflicts) = conflicts {
            let (thread, addr) = (*current, block as u64);
            let access = Access { thread, op: Op::Free, addr, size, own_stack: false, tag: pc };
            conflicts.free(ReportContext { log, modules, stack_top }, &access);
        }
        if is_point {
            runtime.log_watched(Op::Free, Flags::NONE, pc, (block as usize, size), 0);
        }
    }
}

macro_rules! note_free {
    ($($name:literal $pc:literal $real:literal $function:ident(block: Block $(, $arg:ident: $type:ty)*);)*) => {
        $(const _: () = {
            type Function = unsafe extern "C-unwind" fn(Block $(, $type)*);
            unsafe extern "C-unwind" fn wrapper(block: Block, $($arg: $type,)* pc: u64, real: Option<Function>) {
                // SAFETY: the program's call, passed on unchanged.
                unsafe {
                    note_free(block, pc);
                    real.unwrap_or($function)(block $(, $arg)*);
                }
            }
            entries!($pc $real $name, wrapper);
        };)*
    };
}

note_free! {
    "free" "rsi" "rdx" free(block: Block);
    "_ZdlPv" "rsi" "rdx" _ZdlPv(block: Block);
    "_ZdaPv" "rsi" "rdx" _ZdaPv(block: Block);
    "_ZdlPvm" "rdx" "rcx" _ZdlPvm(block: Block, size: usize);
    "_ZdaPvm" "rdx" "rcx" _ZdaPvm(block: Block, size: usize);
}

/// Frees one block and allocates another, perhaps at the same address.
unsafe extern "C-unwind" fn reallocate(block: Block, size: usize, pc: u64, real: Option<Realloc>) -> Block {
    let realloc = real.unwrap_or(realloc);
    // SAFETY: the program's call, passed on unchanged.
    unsafe {
        let Some(runtime) = observing_run() else { return realloc(block, size) };
        runtime.allocate(size, pc, || {
            let new = realloc(block, size);
            (new, new)
        })
    }
}
entries!("rdx" "rcx" "realloc", reallocate);

unsafe extern "C-unwind" fn allocate_aligned(
    place: *mut Block,
    alignment: usize,
    size: usize,
    pc: u64,
    real: Option<PosixMemalign>,
) -> i32 {
    let posix_memalign = real.unwrap_or(posix_memalign);
    // SAFETY: the program's call, passed on unchanged.
    unsafe {
        let Some(runtime) = observing_run() else { return posix_memalign(place, alignment, size) };
        runtime.allocate(size, pc, || {
            let error = posix_memalign(place, alignment, size);
            (error, if error == 0 { *place } else { core::ptr::null_mut() })
        })
    }
}
entries!("rcx" "r8" "posix_memalign", allocate_aligned);
