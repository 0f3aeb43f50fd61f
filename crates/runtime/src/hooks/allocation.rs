//! Memory given and taken by instrumented programs, whose calls `--wrap` leads here. While accesses are
//! points, so are these: a block that is freed and used again is other memory, and who frees it too early is
//! seen.

use crate::{access, atomic::exported, real::real, state::Runtime};
use core::ffi::c_void;
use unsnarl_model::{Flags, Op, Order};

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

/// The run, if accesses are points now.
fn watched() -> Option<&'static mut Runtime> {
    if access::are_points() { Runtime::enter() } else { None }
}

fn size_of_event(size: usize) -> u32 {
    u32::try_from(size).unwrap_or(u32::MAX)
}

/// An allocation: a point, the call, the event.
macro_rules! giving {
    ($($wrapper:literal $register:literal $function:ident($($arg:ident: $type:ty),*), $size:expr;)*) => {
        $(const _: () = {
            unsafe extern "C-unwind" fn wrapper($($arg: $type,)* pc: u64) -> Block {
                // SAFETY: the program's own call, passed on.
                unsafe {
                    let Some(runtime) = watched() else { return $function($($arg),*) };
                    runtime.turn(Op::Alloc, 0, pc);
                    let block = $function($($arg),*);
                    let flags = if block.is_null() { Flags::FAILED } else { Flags::NONE };
                    let access = (block as usize, size_of_event($size), Order::Relaxed);
                    runtime.log_access(Op::Alloc, flags, pc, access, 0);
                    block
                }
            }
            exported!($register $wrapper, wrapper);
        };)*
    };
}

giving! {
    "__wrap_malloc" "rsi" malloc(size: usize), size;
    "__wrap_calloc" "rdx" calloc(count: usize, size: usize), count.saturating_mul(size);
    "__wrap_aligned_alloc" "rdx" aligned_alloc(alignment: usize, size: usize), size;
    "__wrap_memalign" "rdx" memalign(alignment: usize, size: usize), size;
    "__wrap__Znwm" "rsi" _Znwm(size: usize), size;
    "__wrap__Znam" "rsi" _Znam(size: usize), size;
}

/// Tells that a block is about to be freed.
unsafe fn taking(block: Block, pc: u64) {
    if block.is_null() {
        return;
    }
    if let Some(runtime) = watched() {
        runtime.turn(Op::Free, block as usize, pc);
        // SAFETY: a block of the program's that is still allocated, or its mistake.
        let size = unsafe { malloc_usable_size(block) };
        runtime.log_access(
            Op::Free,
            Flags::NONE,
            pc,
            (block as usize, size_of_event(size), Order::Relaxed),
            0,
        );
    }
}

macro_rules! taking {
    ($($wrapper:literal $register:literal $function:ident(block: Block $(, $arg:ident: $type:ty)*);)*) => {
        $(const _: () = {
            unsafe extern "C-unwind" fn wrapper(block: Block, $($arg: $type,)* pc: u64) {
                // SAFETY: the program's own call, passed on.
                unsafe {
                    taking(block, pc);
                    $function(block $(, $arg)*);
                }
            }
            exported!($register $wrapper, wrapper);
        };)*
    };
}

taking! {
    "__wrap_free" "rsi" free(block: Block);
    "__wrap__ZdlPv" "rsi" _ZdlPv(block: Block);
    "__wrap__ZdaPv" "rsi" _ZdaPv(block: Block);
    "__wrap__ZdlPvm" "rdx" _ZdlPvm(block: Block, size: usize);
    "__wrap__ZdaPvm" "rdx" _ZdaPvm(block: Block, size: usize);
}

/// Frees one block and gives another, perhaps at the same place.
unsafe extern "C-unwind" fn resize(block: Block, size: usize, pc: u64) -> Block {
    // SAFETY: the program's own call, passed on.
    unsafe {
        let Some(runtime) = watched() else { return realloc(block, size) };
        runtime.turn(Op::Alloc, 0, pc);
        let new = realloc(block, size);
        let flags = if new.is_null() { Flags::FAILED } else { Flags::NONE };
        runtime.log_access(Op::Alloc, flags, pc, (new as usize, size_of_event(size), Order::Relaxed), 0);
        new
    }
}
exported!("rdx" "__wrap_realloc", resize);

unsafe extern "C-unwind" fn place_aligned(place: *mut Block, alignment: usize, size: usize, pc: u64) -> i32 {
    // SAFETY: the program's own call, passed on.
    unsafe {
        let Some(runtime) = watched() else { return posix_memalign(place, alignment, size) };
        runtime.turn(Op::Alloc, 0, pc);
        let error = posix_memalign(place, alignment, size);
        let (block, flags) =
            if error == 0 { (*place, Flags::NONE) } else { (core::ptr::null_mut(), Flags::FAILED) };
        runtime.log_access(Op::Alloc, flags, pc, (block as usize, size_of_event(size), Order::Relaxed), 0);
        error
    }
}
exported!("rcx" "__wrap_posix_memalign", place_aligned);
