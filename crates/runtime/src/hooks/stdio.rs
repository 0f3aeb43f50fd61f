//! `FILE` streams: their locks, and their reads and writes that can block.
//!
//! The C library takes the lock internally in every stream function, and reads and writes internally: no hook
//! sees either. Other threads wait inside the library if a program holds the lock across several functions, or
//! if its `FILE` is a pipe, a socket or a terminal. Both cases enable system call dispatch
//! ([`crate::dispatch`]). From then on the library's system calls arrive at [`call`].

use super::{
    buffers, descriptor, file,
    io::{Answer, message, read_bytes, reading, write_bytes, writing},
    random,
};
use crate::{
    input::OutputBuffers,
    log::c_bytes,
    real::Real,
    state::{Runtime, State},
    sys,
};
use core::{
    ffi::{CStr, c_char, c_int, c_void},
    mem::offset_of,
    sync::atomic::{AtomicUsize, Ordering},
};
use unsnarl_model::{FileCall, Op};

type File = c_void;

/// The number of stream locks that the program has taken and not released.
static HELD: AtomicUsize = AtomicUsize::new(0);

/// Returns whether the program holds a stream lock.
pub(crate) fn is_held() -> bool {
    HELD.load(Ordering::Relaxed) > 0
}

unsafe extern "C" {
    fn fileno(file: *mut File) -> c_int;
    fn __fpending(file: *mut File) -> usize;
}

impl State {
    /// Registers a new `FILE`: enables dispatch if its operations can block.
    unsafe fn register_stream(&mut self, file: *mut File, pc: u64) -> *mut File {
        // SAFETY: null or an open stream.
        if !file.is_null() && self.descriptors.lookup(unsafe { fileno(file) }).is_some() {
            self.expect_waits_in_libraries(pc);
        }
        file
    }
}

/// Handles a system call that the library made for a `FILE`, as if the library had called the hooked
/// function.
///
/// # Safety
/// The contract of the system call.
pub(crate) unsafe fn call(
    runtime: &mut Runtime,
    number: i64,
    args: [usize; 6],
    (pc, stack): (u64, usize),
) -> isize {
    let [fd, buffer, size, ..] = args;
    let fd = fd as i32;
    if runtime.state.descriptors.lookup(fd).is_none() && number != libc::SYS_close {
        // SAFETY: the caller's contract.
        return unsafe { sys::call(number, args) };
    }
    let call_site = caller(stack);
    let noted_slot = LAST_CALL.slot.load(Ordering::Relaxed);
    let pc = call_site.unwrap_or(pc);
    // A thread must not be cancelled inside the library.
    let disabled = core::mem::replace(&mut runtime.state.me().cancel.disabled, true);
    // SAFETY: the caller's contract.
    let answer: Answer = unsafe {
        match number {
            libc::SYS_read => read_bytes(runtime, fd, buffer as *mut c_void, size, pc),
            libc::SYS_write => write_bytes(runtime, fd, buffer as *const c_void, size, pc),
            libc::SYS_readv => {
                let room = core::slice::from_raw_parts(buffer as *const libc::iovec, size);
                let places = OutputBuffers { counted: room, ..OutputBuffers::NONE };
                runtime.io(reading(fd, pc), number, args, &places)
            }
            libc::SYS_writev => {
                runtime.write(writing(fd, pc), &message(buffer as *const libc::iovec, size), 0)
            }
            libc::SYS_close => Ok(descriptor::close_for_library(runtime, fd, pc)),
            _ => Ok(sys::call(number, args)),
        }
    };
    runtime.state.me().cancel.disabled = disabled;
    if call_site.is_some() {
        // Other threads may have called meanwhile, and this call continues.
        LAST_CALL.pc.store(pc as usize, Ordering::Relaxed);
        LAST_CALL.slot.store(noted_slot, Ordering::Relaxed);
    }
    answer.unwrap_or(-libc::EINTR as isize)
}

/// The program's last call of one of the functions below, and the stack slot with its return address.
#[repr(C)]
struct CallSite {
    pc: AtomicUsize,
    slot: AtomicUsize,
}

static LAST_CALL: CallSite = CallSite { pc: AtomicUsize::new(0), slot: AtomicUsize::new(0) };

/// Returns the call site of the stream function that the running thread is in, if it is one of those below.
fn caller(stack: usize) -> Option<u64> {
    const MAX: usize = 64 << 10;
    let (pc, slot) = (LAST_CALL.pc.load(Ordering::Relaxed), LAST_CALL.slot.load(Ordering::Relaxed));
    let is_above = slot.checked_sub(stack).is_some_and(|distance| distance < MAX);
    // SAFETY: on the running thread's stack, above its stack pointer.
    (is_above && unsafe { *(slot as *const usize) } == pc).then_some(pc as u64)
}

/// Runs a job on a `FILE` as if the program had called it at `pc`.
pub(super) fn with_call_site<T>(pc: u64, job: impl FnOnce() -> T) -> T {
    let slot = pc as usize;
    LAST_CALL.pc.store(slot, Ordering::Relaxed);
    LAST_CALL.slot.store(&raw const slot as usize, Ordering::Relaxed);
    let done = job();
    LAST_CALL.slot.store(0, Ordering::Relaxed);
    done
}

/// Functions that may read or write: the call site is noted, and all arguments are passed on untouched.
macro_rules! note_call_sites {
    ($($name:ident)*) => {
        $(const _: () = {
            #[unsafe(link_section = "unsnarl_real")]
            static REAL: Real = Real::new(
                // SAFETY: a literal with a zero appended.
                unsafe { CStr::from_bytes_with_nul_unchecked(concat!(stringify!($name), "\0").as_bytes()) });
            #[unsafe(naked)]
            #[unsafe(no_mangle)]
            unsafe extern "C-unwind" fn $name() {
                core::arch::naked_asm!(
                    ".cfi_startproc",
                    "mov r11, [rsp]",
                    "mov [rip + {call_site}], r11",
                    "mov [rip + {call_site} + 8], rsp",
                    "mov r11, [rip + {real} + {found}]",
                    "test r11, r11",
                    "jz 2f",
                    "jmp r11",
                    "2:",
                    find_and_jump!(),
                    ".cfi_endproc",
                    call_site = sym LAST_CALL,
                    real = sym REAL,
                    found = const offset_of!(Real, found),
                    find = sym find,
                )
            }
        };)*
    };
}

unsafe extern "C" fn find(real: &Real) -> *mut c_void {
    real.address()
}

note_call_sites! {
    fgetc getc _IO_getc getline getdelim __getdelim fscanf __isoc99_fscanf __isoc23_fscanf vfscanf
    fputc putc _IO_putc fprintf __fprintf_chk vfprintf __vfprintf_chk
}

/// Returns whether a call on this `FILE` cannot wait, so that it is one step of its thread.
unsafe fn is_file(runtime: &mut Runtime, file: *mut File) -> bool {
    // SAFETY: an open stream.
    let fd = unsafe { fileno(file) };
    !is_held() && runtime.state.descriptors.lookup(fd).is_none()
}

/// Makes a call that reads bytes from a `FILE` into a buffer of the program; `call` returns their number.
unsafe fn fill(
    runtime: &mut Runtime,
    file: *mut File,
    buffer: (*mut c_void, usize),
    pc: u64,
    call: impl FnOnce() -> usize,
) {
    // SAFETY: the program's stream.
    let is_file = unsafe { is_file(runtime, file) };
    let _ = buffers::fill(runtime, buffer, is_file, pc, |_| Ok(with_call_site(pc, call) as isize));
}

/// Opens a `FILE` by a path.
#[allow(improper_ctypes_definitions, reason = "called only from Rust; the ABI lets it unwind")]
unsafe extern "C-unwind" fn open(
    runtime: &mut Runtime,
    (path, mode): (*const c_char, *const c_char),
    pc: u64,
    call: impl FnOnce() -> *mut File,
) -> *mut File {
    let stream = match random::device(runtime, pc, path, 0) {
        // SAFETY: the program's mode.
        Some(fd) => unsafe { real::fdopen(fd, mode) },
        None => {
            // SAFETY: null or an open stream.
            let fd_of = |stream: &*mut File| if stream.is_null() { -1 } else { unsafe { fileno(*stream) } };
            file::open(runtime, (libc::AT_FDCWD, path), file::flags_of_mode(mode), pc, |_| call(), fd_of)
        }
    };
    // SAFETY: null or an open stream.
    unsafe { runtime.state.register_stream(stream, pc) }
}

/// Makes a call that writes out what a `FILE` holds back.
///
/// # Safety
/// Null or an open stream.
unsafe extern "C-unwind" fn write_out(
    runtime: &mut Runtime,
    file: *mut File,
    pc: u64,
    call: impl FnOnce() -> c_int,
) -> c_int {
    // SAFETY: the caller's contract.
    if file.is_null() || is_held() || unsafe { __fpending(file) } == 0 {
        return with_call_site(pc, call);
    }
    // SAFETY: as above.
    let fd = unsafe { fileno(file) };
    let job = || with_call_site(pc, call);
    let result = |done: &c_int| if *done < 0 { -(sys::errno() as isize) } else { 0 };
    runtime.on_descriptor((Op::FileWrite, FileCall::Position), fd, pc, job, result)
}

/// Returns the number of bytes that `fgets` wrote to the buffer, with the zero at the end.
fn line_len(line: *mut c_char) -> usize {
    if line.is_null() { 0 } else { c_bytes(line).len() + 1 }
}

hooks! {
    fn puts(text: *const c_char) -> c_int, |runtime, pc| {
        buffers::read_text(runtime, text, pc);
        with_call_site(pc, || real::puts(text))
    }

    fn fputs(text: *const c_char, file: *mut File) -> c_int, |runtime, pc| {
        buffers::read_text(runtime, text, pc);
        with_call_site(pc, || real::fputs(text, file))
    }

    fn fwrite(bytes: *const c_void, size: usize, count: usize, file: *mut File) -> usize, |runtime, pc| {
        buffers::read(runtime, bytes, size.saturating_mul(count), pc);
        with_call_site(pc, || real::fwrite(bytes, size, count, file))
    }

    fn fread(place: *mut c_void, size: usize, count: usize, file: *mut File) -> usize, |runtime, pc| {
        let mut items = 0;
        fill(runtime, file, (place, size.saturating_mul(count)), pc, || {
            items = real::fread(place, size, count, file);
            items.saturating_mul(size)
        });
        items
    }

    fn __fread_chk(place: *mut c_void, room: usize, size: usize, count: usize, file: *mut File) -> usize, |runtime, pc| {
        let mut items = 0;
        fill(runtime, file, (place, size.saturating_mul(count)), pc, || {
            items = real::__fread_chk(place, room, size, count, file);
            items.saturating_mul(size)
        });
        items
    }

    fn fgets(line: *mut c_char, room: c_int, file: *mut File) -> *mut c_char, |runtime, pc| {
        let mut got = core::ptr::null_mut();
        fill(runtime, file, (line.cast(), room.max(0) as usize), pc, || {
            got = real::fgets(line, room, file);
            line_len(got)
        });
        got
    }

    fn __fgets_chk(line: *mut c_char, size: usize, room: c_int, file: *mut File) -> *mut c_char, |runtime, pc| {
        let mut got = core::ptr::null_mut();
        fill(runtime, file, (line.cast(), room.max(0) as usize), pc, || {
            got = real::__fgets_chk(line, size, room, file);
            line_len(got)
        });
        got
    }

    fn fdopen(fd: c_int, mode: *const c_char) -> *mut File, |runtime, pc| {
        let file = real::fdopen(fd, mode);
        runtime.state.register_stream(file, pc)
    }

    fn fopen(path: *const c_char, mode: *const c_char) -> *mut File, |runtime, pc| {
        open(runtime, (path, mode), pc, || real::fopen(path, mode))
    }

    fn fopen64(path: *const c_char, mode: *const c_char) -> *mut File, |runtime, pc| {
        open(runtime, (path, mode), pc, || real::fopen64(path, mode))
    }

    fn freopen(path: *const c_char, mode: *const c_char, file: *mut File) -> *mut File, |runtime, pc| {
        if path.is_null() {
            let file = real::freopen(path, mode, file);
            return runtime.state.register_stream(file, pc);
        }
        open(runtime, (path, mode), pc, || real::freopen(path, mode, file))
    }

    fn freopen64(path: *const c_char, mode: *const c_char, file: *mut File) -> *mut File, |runtime, pc| {
        if path.is_null() {
            let file = real::freopen64(path, mode, file);
            return runtime.state.register_stream(file, pc);
        }
        open(runtime, (path, mode), pc, || real::freopen64(path, mode, file))
    }

    fn fclose(file: *mut File) -> c_int, |runtime, pc| {
        let fd = if file.is_null() { -1 } else { fileno(file) };
        let done = write_out(runtime, file, pc, || real::fclose(file));
        if fd >= 0 {
            runtime.state.open_files.set(fd, 0);
        }
        done
    }

    fn fflush(file: *mut File) -> c_int, |runtime, pc| {
        write_out(runtime, file, pc, || real::fflush(file))
    }

    fn flockfile(file: *mut File) -> (), |runtime, pc| {
        HELD.fetch_add(1, Ordering::Relaxed);
        if runtime.state.live > 1 { runtime.state.expect_waits_in_libraries(pc) }
        real::flockfile(file)
    }

    fn ftrylockfile(file: *mut File) -> i32, |runtime, pc| {
        let error = real::ftrylockfile(file);
        if error == 0 {
            HELD.fetch_add(1, Ordering::Relaxed);
            if runtime.state.live > 1 { runtime.state.expect_waits_in_libraries(pc) }
        }
        error
    }

    fn funlockfile(file: *mut File) -> (), |runtime, pc| {
        let _ = HELD.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |held| held.checked_sub(1));
        real::funlockfile(file)
    }
}
