//! The functions that programs call, one file per kind of object. Every hook reads the same way: guard (is
//! the caller under control?), model (wait for the turn, change the state), real call if there is one, event.

macro_rules! register_after {
    () => {
        "rdi"
    };
    ($a:ident) => {
        "rsi"
    };
    ($a:ident $b:ident) => {
        "rdx"
    };
    ($a:ident $b:ident $c:ident) => {
        "rcx"
    };
    ($a:ident $b:ident $c:ident $d:ident) => {
        "r8"
    };
    ($a:ident $b:ident $c:ident $d:ident $e:ident) => {
        "r9"
    };
}

/// Defines hooks: `fn name(args) -> type, |runtime, pc| body`. The body runs under control, in an unsafe
/// context; without control the real function is called. `pc` is the caller's address.
macro_rules! hooks {
    ($(fn $name:ident($($arg:ident: $type:ty),*) -> $ret:ty, |$runtime:ident, $pc:ident| $body:block)*) => {
        $(
            #[allow(non_snake_case, reason = "the C function's name")]
            #[unsafe(naked)]
            #[unsafe(no_mangle)]
            unsafe extern "C-unwind" fn $name($(_: $type),*) -> $ret {
                core::arch::naked_asm!(
                    concat!("mov ", register_after!($($arg)*), ", [rsp]"),
                    "jmp {}",
                    sym controlled::$name
                )
            }
        )*

        mod real {
            #[allow(unused_imports, reason = "types of signatures")]
            use super::*;
            $crate::real::real! { $(fn $name($($arg: $type),*) -> $ret;)* }
        }

        pub(super) mod controlled {
            #[allow(unused_imports, reason = "not every body uses them")]
            use super::*;
            $(
                #[allow(unused_variables, unused_unsafe, non_snake_case, reason = "not every hook needs everything")]
                pub(in super::super) unsafe extern "C-unwind" fn $name($($arg: $type,)* $pc: u64) -> $ret {
                    // SAFETY: the program keeps the contract of the function that it called.
                    unsafe {
                        match $crate::state::Runtime::enter() {
                            None => real::$name($($arg),*),
                            Some($runtime) => $body,
                        }
                    }
                }
            )*
        }
    };
}

/// Defines a function of six arguments, which leave no register for the return address: it is passed as a
/// seventh argument to the inner function.
macro_rules! six_arguments {
    ($name:ident, $inner:ident) => {
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $name() {
            core::arch::naked_asm!(
                ".cfi_startproc",
                "push [rsp]",
                ".cfi_adjust_cfa_offset 8",
                "call {}",
                "add rsp, 8",
                ".cfi_adjust_cfa_offset -8",
                "ret",
                ".cfi_endproc",
                sym $inner
            )
        }
    };
}

/// Forwards a variadic function with its arguments untouched: calls `find` with `real` and the caller's
/// address, then jumps to the address that `find` returns.
macro_rules! find_and_jump {
    () => {
        concat!(
            "push rdi\n",
            "push rsi\n",
            "push rdx\n",
            "push rcx\n",
            "push r8\n",
            "push r9\n",
            "push rax\n",
            "sub rsp, 128\n",
            ".cfi_adjust_cfa_offset 184\n",
            "movups [rsp + 0], xmm0\n",
            "movups [rsp + 16], xmm1\n",
            "movups [rsp + 32], xmm2\n",
            "movups [rsp + 48], xmm3\n",
            "movups [rsp + 64], xmm4\n",
            "movups [rsp + 80], xmm5\n",
            "movups [rsp + 96], xmm6\n",
            "movups [rsp + 112], xmm7\n",
            "lea rdi, [rip + {real}]\n",
            "mov rsi, [rsp + 184]\n",
            "call {find}\n",
            "mov r11, rax\n",
            "movups xmm0, [rsp + 0]\n",
            "movups xmm1, [rsp + 16]\n",
            "movups xmm2, [rsp + 32]\n",
            "movups xmm3, [rsp + 48]\n",
            "movups xmm4, [rsp + 64]\n",
            "movups xmm5, [rsp + 80]\n",
            "movups xmm6, [rsp + 96]\n",
            "movups xmm7, [rsp + 112]\n",
            "add rsp, 128\n",
            "pop rax\n",
            "pop r9\n",
            "pop r8\n",
            "pop rcx\n",
            "pop rdx\n",
            "pop rsi\n",
            "pop rdi\n",
            ".cfi_adjust_cfa_offset -184\n",
            "jmp r11",
        )
    };
}

mod allocation;
mod barrier;
mod buffers;
mod c11;
pub(crate) mod cancel;
mod child;
pub(crate) mod cond;
mod credentials;
mod descriptor;
mod exit;
pub(super) mod file;
mod file_lock;
mod format;
pub(crate) mod futex;
mod guard;
mod hints;
pub(crate) mod ids;
mod io;
pub(crate) mod key;
mod kill;
mod library_waits;
pub(crate) mod loading;
mod lookup;
mod memory;
pub(crate) mod mutex;
pub(crate) mod once;
pub(crate) mod openmp;
mod openmp_order;
mod poll;
mod random;
mod resolver;
pub(crate) mod rwlock;
mod semaphore;
mod shell;
mod signal;
mod signal_wait;
mod socket;
mod spin;
pub(crate) mod stdio;
mod temporary;
pub(crate) mod thread;
mod time;
mod timer;
mod unwind;
mod usage;
mod wait_limit;
