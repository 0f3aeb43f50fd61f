//! Allocation functions of instrumented programs, redirected here by `--wrap`. Where accesses are schedule
//! points, so are these calls: a freed and reallocated block counts as new memory, and a premature free is
//! detected.

use crate::{
    access,
    atomic::exported,
    real::real,
    state::{Runtime, State},
};
use core::ffi::c_void;
use unsnarl_model::{Flags, Op, Order};
use unsnarl_race::Access;

type Block = *mut c_void;

real! {
    fn malloc(size: usize) -> Block;
    fn calloc(count: usize, size: usize) -> Block;
    fn realloc(block: Block, size: usize) -> Block;
    fn free(block: Block);
    fn aligned_alloc(alignment: usize, size: usize) -> Block;
    fn memalign(alignment: usize, size: usize) -> Block;
    fn posix_memalign(place: *mut Block, alignment: usize, size: usize) -> i32;
    fn malloc_usable_size(block: Block) -> usize;
    fn _Znwm(size: usize) -> Block;
    fn _Znam(size: usize) -> Block;
    fn _ZdlPv(block: Block);
    fn _ZdaPv(block: Block);
    fn _ZdlPvm(block: Block, size: usize);
    fn _ZdaPvm(block: Block, size: usize);
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
        if is_point {
            let flags = if block.is_null() { Flags::FAILED } else { Flags::NONE };
            self.log_access(Op::Alloc, flags, pc, (block as usize, size, Order::Relaxed), 0);
        }
        result
    }
}

/// Defines an allocation wrapper: a schedule point, the call and the event.
macro_rules! allocations {
    ($($wrapper:literal $register:literal $function:ident($($arg:ident: $type:ty),*), $size:expr;)*) => {
        $(const _: () = {
            unsafe extern "C-unwind" fn wrapper($($arg: $type,)* pc: u64) -> Block {
                // SAFETY: the program's call, passed on unchanged.
                unsafe {
                    let Some(runtime) = observing_run() else { return $function($($arg),*) };
                    runtime.allocate($size, pc, || {
                        let block = $function($($arg),*);
                        (block, block)
                    })
                }
            }
            exported!($register $wrapper, wrapper);
        };)*
    };
}

allocations! {
    "__wrap_malloc" "rsi" malloc(size: usize), size;
    "__wrap_calloc" "rdx" calloc(count: usize, size: usize), count.saturating_mul(size);
    "__wrap_aligned_alloc" "rdx" aligned_alloc(alignment: usize, size: usize), size;
    "__wrap_memalign" "rdx" memalign(alignment: usize, size: usize), size;
    "__wrap__Znwm" "rsi" _Znwm(size: usize), size;
    "__wrap__Znam" "rsi" _Znam(size: usize), size;
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
        let State { conflicts, log, current, .. } = &mut runtime.state;
        if let Some(conflicts) = conflicts {
            let (thread, addr) = (*current, block as u64);
            conflicts.free(log, &Access { thread, op: Op::Free, addr, size, own_stack: false, tag: pc });
        }
        if is_point {
            runtime.log_access(Op::Free, Flags::NONE, pc, (block as usize, size, Order::Relaxed), 0);
        }
    }
}

macro_rules! note_free {
    ($($wrapper:literal $register:literal $function:ident(block: Block $(, $arg:ident: $type:ty)*);)*) => {
        $(const _: () = {
            unsafe extern "C-unwind" fn wrapper(block: Block, $($arg: $type,)* pc: u64) {
                // SAFETY: the program's call, passed on unchanged.
                unsafe {
                    note_free(block, pc);
                    $function(block $(, $arg)*);
                }
            }
            exported!($register $wrapper, wrapper);
        };)*
    };
}

note_free! {
    "__wrap_free" "rsi" free(block: Block);
    "__wrap__ZdlPv" "rsi" _ZdlPv(block: Block);
    "__wrap__ZdaPv" "rsi" _ZdaPv(block: Block);
    "__wrap__ZdlPvm" "rdx" _ZdlPvm(block: Block, size: usize);
    "__wrap__ZdaPvm" "rdx" _ZdaPvm(block: Block, size: usize);
}

/// Frees one block and allocates another, perhaps at the same address.
unsafe extern "C-unwind" fn reallocate(block: Block, size: usize, pc: u64) -> Block {
    // SAFETY: the program's call, passed on unchanged.
    unsafe {
        let Some(runtime) = observing_run() else { return realloc(block, size) };
        runtime.allocate(size, pc, || {
            let new = realloc(block, size);
            (new, new)
        })
    }
}
exported!("rdx" "__wrap_realloc", reallocate);

unsafe extern "C-unwind" fn allocate_aligned(
    place: *mut Block,
    alignment: usize,
    size: usize,
    pc: u64,
) -> i32 {
    // SAFETY: the program's call, passed on unchanged.
    unsafe {
        let Some(runtime) = observing_run() else { return posix_memalign(place, alignment, size) };
        runtime.allocate(size, pc, || {
            let error = posix_memalign(place, alignment, size);
            (error, if error == 0 { *place } else { core::ptr::null_mut() })
        })
    }
}
exported!("rcx" "__wrap_posix_memalign", allocate_aligned);
