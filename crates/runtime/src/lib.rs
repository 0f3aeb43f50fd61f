//! The library inside the target program: it controls every pthread and logs every visible operation.
//!
//! It is preloaded and replaces the pthread functions and related ones. It runs the program's threads one at
//! a time. Before each visible operation, the plan's [`Picker`](unsnarl_sched::Picker) says which thread goes
//! next. Each event is written to the memory that is shared with the controller. Without that memory the
//! library is passive: every hook calls the real function.
//!
//! # Safety, for the whole crate
//!
//! One thread runs at a time: the current fiber on the only kernel thread, the *carrier*, or the kernel
//! thread that holds the token (see [`context`]). Only that thread reaches the [`Runtime`](state::Runtime):
//! every hook first checks that the caller's thread pointer is the current thread's. There is therefore no
//! concurrency in this crate: a `&mut Runtime` obtained in a hook is the only one in use until the next context
//! switch, and [`turn`] keeps none across it. Pointers that hooks receive belong to the program: they are as
//! valid as the replaced C interface demands. A program that violates that contract crashes here as it would
//! in the C library.

#![no_std]

extern crate alloc;

mod access;
mod access_log;
mod atomic;
mod atomic_values;
mod before_control;
mod children;
mod clock;
mod conflicts;
mod context;
mod crash;
mod debug;
mod descriptors;
mod dispatch;
mod end;
mod endless_loop;
mod entropy;
mod entry_patches;
mod environment;
mod fiber;
mod file_changes;
mod file_names;
mod files;
mod follow;
mod gate;
mod handlers;
mod heap;
mod hooks;
mod init;
mod input;
mod libc_randomness;
mod livelock;
mod loaded;
mod log;
mod maps;
mod modules;
mod network;
mod partial_stores;
mod pauses;
mod pointer_guard;
mod queue;
mod real;
mod redirect;
mod rewind;
mod serve;
mod shadow;
mod signals;
mod sites;
mod snapshot;
mod stack;
mod state;
mod stream_identity;
mod sys;
mod thread;
mod time_stamp;
mod timers;
mod token;
mod tracer;
mod turn;
mod unblockable;
mod unseen_order;
mod wait_proof;
mod warn;
mod watchdog;

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    end::internal(info)
}

/// The core library was built with unwinding and refers to this symbol. No frame of this crate has anything
/// to clean up when `pthread_exit` or an exception passes, so unwinding continues.
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() -> i32 {
    const CONTINUE: i32 = 8;
    CONTINUE
}

// The core libraries were built with unwinding and refer to this symbol, but no code of this crate unwinds.
// It is hidden so that it does not replace the program's own definition.
core::arch::global_asm!(".globl _Unwind_Resume", ".hidden _Unwind_Resume", "_Unwind_Resume:", "ud2");
