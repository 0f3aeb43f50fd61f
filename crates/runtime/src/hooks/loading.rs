//! Libraries that the program opens while it runs.
//!
//! The loader holds a lock while constructors and destructors run, so no other thread may run meanwhile. It looks at the
//! address that `dlopen` returns to, because the caller's RUNPATH says where libraries are. So the hook leads the loader
//! back through an instruction of the caller's own module ([`call_and_return_through`]).
//!
//! All functions are bound when a library is loaded (`LD_BIND_NOW`). A library with a function that nothing defines cannot
//! be opened then, although it can natively, with `RTLD_LAZY`. The run is then made again with lazy binding.

use crate::{end, loaded, log::c_bytes, real::Real, state::Runtime};
use core::{
    arch::naked_asm,
    ffi::{c_char, c_int, c_void},
    sync::atomic::{AtomicBool, Ordering},
};
use unsnarl_insn::iced::{Code, Decoder, DecoderOptions};
use unsnarl_wire::JVM_REFUSED;

/// The loader's message for a symbol that nothing defines.
const UNRESOLVED: &[u8] = b"undefined symbol: ";

static IS_EAGER: AtomicBool = AtomicBool::new(false);

/// Notes that the loader binds eagerly because the controller asked for it.
pub(crate) fn expect_eager_binding() {
    IS_EAGER.store(true, Ordering::Relaxed);
}

hooks! {
    fn dlclose(handle: *mut c_void) -> c_int, |runtime, pc| {
        runtime.state.undivided += 1;
        let error = real::dlclose(handle);
        runtime.state.undivided -= 1;
        error
    }
}

static REAL_OPEN: Real = Real::new(c"dlopen");

/// Continues at [`open`], with the caller's address as third argument, or without control at the real function, which has
/// two.
#[unsafe(naked)]
#[unsafe(no_mangle)]
unsafe extern "C" fn dlopen(_: *const c_char, _: c_int) -> *mut c_void {
    naked_asm!(
        ".cfi_startproc",
        "push rdi",
        "push rsi",
        "sub rsp, 8",
        ".cfi_adjust_cfa_offset 24",
        "call {choose_function}",
        "add rsp, 8",
        "pop rsi",
        "pop rdi",
        ".cfi_adjust_cfa_offset -24",
        "mov rdx, [rsp]",
        "jmp rax",
        ".cfi_endproc",
        choose_function = sym choose_function,
    )
}

extern "C" fn choose_function() -> usize {
    let function = REAL_OPEN.address() as usize;
    if Runtime::enter().is_some() { open as *const () as usize } else { function }
}

extern "C-unwind" fn open(file: *const c_char, mode: c_int, caller: usize) -> *mut c_void {
    if let Some(runtime) = Runtime::enter() {
        if !file.is_null() && is_jvm(c_bytes(file)) {
            end::refuse(JVM_REFUSED);
        }
        runtime.state.undivided += 1;
    }
    let function = REAL_OPEN.address() as usize;
    let through = return_near(caller).unwrap_or(own_return as *const () as usize);
    // SAFETY: the program's arguments, and a `ret` instruction.
    let attempt = || unsafe { call_and_return_through(file, mode, function, through) };
    let mut handle = attempt();
    if handle.is_null() && mode & libc::RTLD_NOW == 0 && IS_EAGER.load(Ordering::Relaxed) {
        end_if_unresolved();
        // The loader reports an error only once. It must fail again, so that the program finds the error too.
        handle = attempt();
    }
    if let Some(runtime) = Runtime::enter() {
        let state = &mut runtime.state;
        state.undivided -= 1;
        state.refresh_modules();
        if state.modules.has_openmp() {
            state.expect_waits_in_libraries(caller as u64);
        }
    }
    handle
}

/// Returns whether the file is the library of a Java virtual machine.
fn is_jvm(file: &[u8]) -> bool {
    file.rsplit(|&byte| byte == b'/').next().is_some_and(|name| name.starts_with(b"libjvm.so"))
}

/// Ends the run if the last library could not be opened because a function of it is undefined.
fn end_if_unresolved() {
    // SAFETY: the loader's message lasts until the thread's next operation on a library.
    let message = c_bytes(unsafe { libc::dlerror() });
    let is_unresolved = message.windows(UNRESOLVED.len()).any(|part| part == UNRESOLVED);
    if let (true, Some(runtime)) = (is_unresolved, Runtime::enter()) {
        end::needs_lazy_binding(&runtime.state, message);
    }
}

/// Calls a function that sees `through` as its return address. The `ret` there returns here.
#[unsafe(naked)]
unsafe extern "C-unwind" fn call_and_return_through(
    file: *const c_char,
    mode: c_int,
    function: usize,
    through: usize,
) -> *mut c_void {
    naked_asm!(
        ".cfi_startproc",
        "lea r11, [rip + 2f]",
        "push r11",
        "push rcx",
        ".cfi_adjust_cfa_offset 16",
        "jmp rdx",
        ".cfi_adjust_cfa_offset -16",
        "2:",
        "ret",
        ".cfi_endproc",
    )
}

/// A `ret` for callers without a module.
#[unsafe(naked)]
unsafe extern "C" fn own_return() {
    naked_asm!("ret")
}

/// Finds the next `ret` in the module of this code: normally the end of the same function.
fn return_near(caller: usize) -> Option<usize> {
    let end = code_end(caller)?;
    // SAFETY: the code of a loaded module, up to its end.
    let code = unsafe { core::slice::from_raw_parts(caller as *const u8, end - caller) };
    let mut decoder = Decoder::with_ip(64, code, caller as u64, DecoderOptions::NONE);
    while decoder.can_decode() {
        let instruction = decoder.decode();
        if instruction.code() == Code::Retnq {
            return Some(instruction.ip() as usize);
        }
    }
    None
}

/// Returns the end of the executable segment that contains this address.
fn code_end(address: usize) -> Option<usize> {
    loaded::find(|module| module.code().find(|code| code.contains(&(address as u64))))
        .map(|code| code.end as usize)
}
