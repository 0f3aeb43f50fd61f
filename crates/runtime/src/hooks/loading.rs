//! Libraries that the program opens while it runs.
//!
//! The loader holds a lock while constructors and destructors run, so no other thread may run meanwhile. It looks at the
//! address that `dlopen` returns to, because the caller's RUNPATH says where libraries are. So the hook leads the loader
//! back through an instruction of the caller's own module ([`dlopen`]).
//!
//! All functions are bound when a library is loaded (`LD_BIND_NOW`). A library with a function that nothing defines cannot be
//! opened then, although it can natively, with `RTLD_LAZY`. The program learns of the failure through `dlerror`, and so does
//! the runtime.

use crate::{end, log::c_bytes, real::Real, state::Runtime};
use core::{
    arch::naked_asm,
    ffi::{c_char, c_int, c_void},
    mem,
    sync::atomic::{AtomicBool, Ordering},
};
use unsnarl_insn::iced::{Code, Decoder, DecoderOptions};

/// The loader's message for a symbol that nothing defines.
const UNRESOLVED: &[u8] = b"undefined symbol: ";

static IS_EAGER: AtomicBool = AtomicBool::new(false);
static REAL: Real = Real::new(c"dlerror");

/// Finds the function behind the hook, before the program runs: a lookup later on would clear the error to be reported.
pub(crate) fn find_real() {
    REAL.find();
}

/// Notes that the loader binds eagerly because the controller asked for it.
pub(crate) fn expect_eager_binding() {
    IS_EAGER.store(true, Ordering::Relaxed);
}

#[unsafe(no_mangle)]
unsafe extern "C" fn dlerror() -> *mut c_char {
    let Some(real) = REAL.find() else { return core::ptr::null_mut() };
    // SAFETY: the C library's function of this name.
    let message = unsafe { mem::transmute::<*mut _, unsafe extern "C" fn() -> *mut c_char>(real)() };
    if IS_EAGER.load(Ordering::Relaxed) {
        let text = c_bytes(message);
        let is_unresolved = text.windows(UNRESOLVED.len()).any(|part| part == UNRESOLVED);
        if let (true, Some(runtime)) = (is_unresolved, Runtime::enter()) {
            end::needs_lazy_binding(&runtime.state, text);
        }
    }
    message
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

/// Calls the real function with a `ret` of the caller's module as its return address. That instruction returns to
/// [`opened`], which returns to the caller.
#[unsafe(naked)]
#[unsafe(no_mangle)]
unsafe extern "C" fn dlopen(_: *const c_char, _: c_int) -> *mut c_void {
    naked_asm!(
        ".cfi_startproc",
        "push rdi",
        "push rsi",
        "sub rsp, 8",
        ".cfi_adjust_cfa_offset 24",
        "mov rdi, [rsp + 24]",
        "call {opening}",
        "add rsp, 8",
        "pop rsi",
        "pop rdi",
        ".cfi_adjust_cfa_offset -24",
        "test rdx, rdx",
        "jz 2f",
        "lea r11, [rip + {opened}]",
        "push r11",
        "push rdx",
        ".cfi_adjust_cfa_offset 16",
        "2:",
        "jmp rax",
        ".cfi_endproc",
        opening = sym opening,
        opened = sym opened,
    )
}

#[unsafe(naked)]
unsafe extern "C" fn opened() {
    naked_asm!(
        ".cfi_startproc",
        "push rax",
        ".cfi_adjust_cfa_offset 8",
        "mov rdi, [rsp + 8]",
        "call {finish}",
        "pop rax",
        ".cfi_adjust_cfa_offset -8",
        "ret",
        ".cfi_endproc",
        finish = sym finish_opening,
    )
}

/// The function to continue with, and its return address; 0 for the caller's own.
#[repr(C)]
struct Continuation {
    function: usize,
    returns_to: usize,
}

extern "C" fn opening(caller: usize) -> Continuation {
    let function = REAL_OPEN.address() as usize;
    let Some(runtime) = Runtime::enter() else { return Continuation { function, returns_to: 0 } };
    runtime.state.undivided += 1;
    Continuation { function, returns_to: return_near(caller).unwrap_or(ours as *const () as usize) }
}

extern "C" fn finish_opening(caller: u64) {
    let Some(runtime) = Runtime::enter() else { return };
    let state = &mut runtime.state;
    state.undivided -= 1;
    state.refresh_modules();
    if state.modules.has_openmp() {
        state.expect_waits_in_libraries(caller);
    }
}

/// A `ret` for callers without a module.
#[unsafe(naked)]
unsafe extern "C" fn ours() {
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
    struct Search {
        address: usize,
        end: Option<usize>,
    }
    unsafe extern "C" fn look(module: *mut libc::dl_phdr_info, _: usize, search: *mut c_void) -> c_int {
        // SAFETY: the loader describes a module, and passes the pointer that it was given.
        let (module, search) = unsafe { (&*module, &mut *search.cast::<Search>()) };
        // SAFETY: the module's program headers.
        let headers = unsafe { core::slice::from_raw_parts(module.dlpi_phdr, module.dlpi_phnum.into()) };
        let segments = headers
            .iter()
            .filter(|header| header.p_type == libc::PT_LOAD && header.p_flags & libc::PF_X != 0);
        for segment in segments {
            let start = (module.dlpi_addr + segment.p_vaddr) as usize;
            let end = start + segment.p_memsz as usize;
            if (start..end).contains(&search.address) {
                search.end = Some(end);
            }
        }
        search.end.is_some().into()
    }
    let mut search = Search { address, end: None };
    // SAFETY: `look` has the type that is asked for, and `search` outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut search).cast()) };
    search.end
}
