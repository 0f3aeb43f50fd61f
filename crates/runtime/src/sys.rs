//! Direct system calls: they bypass all hooks and leave errno unchanged.

use crate::{rewind, stack};
use core::{
    arch::asm,
    cell::UnsafeCell,
    sync::atomic::{AtomicU32, AtomicUsize, Ordering},
};
use unsnarl_wire::RUNTIME_MEMORY;

/// Makes a system call with up to six arguments; negative results are errors.
///
/// # Safety
/// The contract of the system call.
#[inline]
pub(crate) unsafe fn call(number: i64, args: [usize; 6]) -> isize {
    let result;
    // SAFETY: the kernel clobbers only rcx and r11; the caller guarantees the contract of the call.
    unsafe {
        asm!("syscall", inlateout("rax") number as isize => result,
            in("rdi") args[0], in("rsi") args[1], in("rdx") args[2],
            in("r10") args[3], in("r8") args[4], in("r9") args[5],
            lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    result
}

/// The start of the runtime's memory: far from programs, libraries, stacks and heaps, so that the program's
/// addresses do not depend on its size.
pub(crate) const LOG_MEMORY: usize = 0x6000_0000_0000;
/// The start of its heap, beyond any log.
const HEAP: usize = 0x6800_0000_0000;
/// The start of the part of its heap that depends on the plan.
const PLAN_HEAP: usize = 0x6c00_0000_0000;
const _: () =
    assert!(LOG_MEMORY as u64 == RUNTIME_MEMORY[1].start && (PLAN_HEAP as u64) < RUNTIME_MEMORY[1].end);

fn map_at(at: usize, size: usize, flags: i32, fd: i32) -> Option<usize> {
    let protection = (libc::PROT_READ | libc::PROT_WRITE) as usize;
    let flags = (flags | libc::MAP_FIXED_NOREPLACE | libc::MAP_NORESERVE) as usize;
    // SAFETY: a new mapping at a free address.
    let got = unsafe { rewind::call(libc::SYS_mmap, [at, size, protection, flags, fd as usize, 0]) };
    (got == at as isize).then_some(at)
}

/// The addresses of the next pieces of the runtime's memory.
static NEXT_FREE: [AtomicUsize; 2] = [AtomicUsize::new(HEAP), AtomicUsize::new(PLAN_HEAP)];

/// Returns the ends of both parts of the runtime's memory.
pub(crate) fn own_heap_ends() -> [usize; 2] {
    NEXT_FREE.each_ref().map(|next| next.load(Ordering::Relaxed))
}

/// Maps fresh zeroed memory.
pub(crate) fn map(size: usize, for_plan: bool) -> Option<usize> {
    let at = NEXT_FREE[usize::from(for_plan)].fetch_add(size.next_multiple_of(4096), Ordering::Relaxed);
    map_at(at, size, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1)
}

/// Maps `size` bytes of a file, shared, replacing the previous mapping of this kind.
pub(crate) fn map_shared(fd: i32, size: usize) -> Option<usize> {
    // SAFETY: only this function maps anything there.
    unsafe { call(libc::SYS_munmap, [LOG_MEMORY, size, 0, 0, 0, 0]) };
    map_at(LOG_MEMORY, size, libc::MAP_SHARED, fd)
}

/// Reserves memory at an address for good; returns false if the system does not allow it.
pub(crate) fn reserve(at: usize, size: usize) -> bool {
    let got = map_at(at, size, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1).is_some();
    // It is touched sparsely: zeroing a huge page for each touch would be wasteful.
    // SAFETY: optional advice about the runtime's memory.
    unsafe { rewind::call(libc::SYS_madvise, [at, size, libc::MADV_NOHUGEPAGE as usize, 0, 0, 0]) };
    got
}

/// Makes reserved memory zero again.
///
/// # Safety
/// All of it was reserved with [`reserve`], and nothing borrowed from it is alive.
pub(crate) unsafe fn clear_reserved(from: usize, to: usize) {
    let (first, last) = (from.next_multiple_of(4096).min(to), to & !4095);
    // SAFETY: the caller's contract.
    unsafe {
        if first < last {
            rewind::call(libc::SYS_madvise, [first, last - first, libc::MADV_DONTNEED as usize, 0, 0, 0]);
            core::ptr::write_bytes(last as *mut u8, 0, to - last);
        }
        core::ptr::write_bytes(from as *mut u8, 0, first.min(to) - from);
    }
}

/// Ends the process at once.
pub(crate) fn exit(status: i32) -> ! {
    loop {
        // SAFETY: does not return.
        unsafe { call(libc::SYS_exit_group, [status as usize, 0, 0, 0, 0, 0]) };
    }
}

/// Writes to standard error, as much as possible.
pub(crate) fn write_stderr(text: &[u8]) {
    // SAFETY: the kernel only reads the text.
    unsafe { call(libc::SYS_write, [2, text.as_ptr() as usize, text.len(), 0, 0, 0]) };
}

/// Copies memory through the kernel, which stops at unreadable memory; returns the number of bytes copied.
///
/// # Safety
/// `to` has room.
pub(crate) unsafe fn copy_memory(from: usize, to: usize, len: usize) -> usize {
    let (source, destination) = (from, to);
    let (from, to) = ([from, len], [to, len]);
    let [from, to] = [from.as_ptr() as usize, to.as_ptr() as usize];
    // SAFETY: one source and one destination, for which the caller guarantees room.
    match unsafe { call(libc::SYS_process_vm_readv, [process() as usize, to, 1, from, 1, 0]) } {
        // SAFETY: the caller's contract.
        NOT_PERMITTED | NO_SUCH_CALL => unsafe { copy_by_pipe(source, destination, len) },
        copied => copied.max(0) as usize,
    }
}

const NOT_PERMITTED: isize = -(libc::EPERM as isize);
const NO_SUCH_CALL: isize = -(libc::ENOSYS as isize);

/// Like [`copy_memory`] where the system forbids that call: a pipe accepts only readable bytes. The pipe is
/// closed afterwards.
///
/// # Safety
/// `to` has room.
#[cold]
unsafe fn copy_by_pipe(from: usize, to: usize, len: usize) -> usize {
    const PAGE: usize = 4096;
    let mut ends = [0i32; 2];
    let flags = (libc::O_CLOEXEC | libc::O_NONBLOCK) as usize;
    // SAFETY: there is room for two descriptors.
    if unsafe { rewind::call(libc::SYS_pipe2, [ends.as_mut_ptr() as usize, flags, 0, 0, 0, 0]) } < 0 {
        return 0;
    }
    let [output, input] = ends.map(|end| end as usize);
    let mut copied = 0;
    while copied < len {
        let at = from + copied;
        // A write that reaches an unmapped page writes nothing at all.
        let part = (PAGE - at % PAGE).min(len - copied) as isize;
        // SAFETY: the kernel checks the source; the caller guarantees room at the destination.
        let done = unsafe {
            rewind::call(libc::SYS_write, [input, at, part as usize, 0, 0, 0]) == part
                && rewind::call(libc::SYS_read, [output, to + copied, part as usize, 0, 0, 0]) == part
        };
        if !done {
            break;
        }
        copied += part as usize;
    }
    for end in [output, input] {
        // SAFETY: the runtime's descriptor.
        unsafe { rewind::call(libc::SYS_close, [end, 0, 0, 0, 0, 0]) };
    }
    copied
}

/// Returns whether there is readable memory at an address.
pub(crate) fn is_readable(addr: usize) -> bool {
    let mut byte = 0u8;
    // SAFETY: there is room for one byte.
    unsafe { copy_memory(addr, &raw mut byte as usize, 1) == 1 }
}

/// Returns whether the kernel allows one more process: tries with a child that ends at once and sends no
/// signal.
#[cold]
pub(crate) fn can_fork() -> bool {
    let limited = -(libc::EAGAIN as isize);
    // SAFETY: the child ends before it touches anything; only it is waited for.
    unsafe {
        match rewind::call(libc::SYS_clone, [0; 6]) {
            0 => loop {
                rewind::call(libc::SYS_exit_group, [0; 6]);
            },
            child @ 1.. => {
                rewind::call(libc::SYS_wait4, [child as usize, 0, libc::__WALL as usize, 0, 0, 0]);
                true
            }
            error => error != limited,
        }
    }
}

/// Returns the process's id.
pub(crate) fn process() -> i32 {
    // SAFETY: no arguments, no effect.
    unsafe { call(libc::SYS_getpid, [0; 6]) as i32 }
}

/// Returns the kernel's id of the calling thread; the carrier's is the process's.
pub(crate) fn thread() -> i32 {
    // SAFETY: no arguments, no effect.
    unsafe { call(libc::SYS_gettid, [0; 6]) as i32 }
}

/// Sleeps while the word has this value; may return early.
pub(crate) fn wait_while(word: &AtomicU32, value: u32) {
    let args = [word.as_ptr() as usize, libc::FUTEX_WAIT as usize, value as usize, 0, 0, 0];
    // SAFETY: a wait changes nothing.
    unsafe { call(libc::SYS_futex, args) };
}

/// Wakes a thread that sleeps at the word.
pub(crate) fn wake(word: &AtomicU32) {
    // SAFETY: a wake-up changes nothing.
    unsafe { call(libc::SYS_futex, [word.as_ptr() as usize, libc::FUTEX_WAKE as usize, 1, 0, 0, 0]) };
}

/// Sleeps until the word at `addr` is 0; the kernel clears it when a thread has ended. Returns false if that
/// takes longer than `seconds`.
pub(crate) fn wait_until_cleared(addr: *const u32, seconds: i64) -> bool {
    // The word is the kernel's thread id or 0: it must leave no trace on the program's stack.
    stack::run_isolated(|| {
        loop {
            // SAFETY: the word belongs to a thread record or a thread descriptor that still exists.
            let value = unsafe { addr.read_volatile() };
            if value == 0 {
                return true;
            }
            let most = libc::timespec { tv_sec: seconds, tv_nsec: 0 };
            let most = &raw const most as usize;
            let args = [addr as usize, libc::FUTEX_WAIT as usize, value as usize, most, 0, 0];
            // Not a private futex: the kernel's wake-up at thread exit is a shared one.
            // SAFETY: a wait changes nothing.
            if unsafe { call(libc::SYS_futex, args) } == -libc::ETIMEDOUT as isize {
                return false;
            }
        }
    })
}

/// The maximum nesting of thread creations.
const MAX_NESTED_PINS: usize = 16;

/// The saved affinity masks; the first number is the size of the mask in bytes, 0 for a free entry.
struct Affinities(UnsafeCell<[(usize, [u8; 128]); MAX_NESTED_PINS]>);

// SAFETY: only the running thread reaches it.
unsafe impl Sync for Affinities {}

static SAVED_MASKS: Affinities = Affinities(UnsafeCell::new([(0, [0; 128]); MAX_NESTED_PINS]));

/// Keeps this thread, and those it creates meanwhile, on its current processor until dropped: waiting for a
/// thread on the same processor is a plain switch, on another one it costs an interrupt in each direction.
///
/// The processor differs from run to run. So the mask is not kept here, on the program's stack, but in this
/// entry of [`SAVED_MASKS`].
pub(crate) struct OneProcessor(u32);

impl OneProcessor {
    pub(crate) fn pin() -> Self {
        Self(stack::run_isolated(|| {
            // SAFETY: only the running thread gets here.
            let before = unsafe { &mut *SAVED_MASKS.0.get() };
            let Some(place) = before.iter().position(|(size, _)| *size == 0) else {
                return MAX_NESTED_PINS as u32;
            };
            let (size, mask) = &mut before[place];
            let mut here = 0u32;
            // SAFETY: there is room for the masks; these are the calling thread's settings.
            let got = unsafe {
                call(libc::SYS_getcpu, [&raw mut here as usize, 0, 0, 0, 0, 0]);
                call(libc::SYS_sched_getaffinity, [0, mask.len(), mask.as_mut_ptr() as usize, 0, 0, 0])
            };
            *size = usize::try_from(got).unwrap_or(0);
            let mut only = [0u8; 128];
            if let Some(byte) = only.get_mut(here as usize / 8) {
                *byte = 1 << (here % 8);
                // SAFETY: as above.
                unsafe {
                    rewind::call(
                        libc::SYS_sched_setaffinity,
                        [0, only.len(), only.as_ptr() as usize, 0, 0, 0],
                    )
                };
            }
            place as u32
        }))
    }
}

impl Drop for OneProcessor {
    fn drop(&mut self) {
        stack::run_isolated(|| {
            // SAFETY: only the running thread gets here.
            let before = unsafe { &mut *SAVED_MASKS.0.get() };
            if let Some((size, mask)) = before.get_mut(self.0 as usize) {
                // SAFETY: the mask that was set before.
                unsafe {
                    rewind::call(libc::SYS_sched_setaffinity, [0, *size, mask.as_ptr() as usize, 0, 0, 0])
                };
                *size = 0;
            }
        });
    }
}

/// Returns the calling thread's descriptor, to which FS points: the result of `pthread_self`.
#[inline]
pub(crate) fn thread_pointer() -> usize {
    let pointer;
    // SAFETY: on x86-64 glibc keeps the thread descriptor's address at this offset.
    unsafe { asm!("mov {}, fs:[0x10]", out(reg) pointer, options(nostack, pure, readonly, preserves_flags)) };
    pointer
}

/// Returns the caller's errno.
pub(crate) fn errno() -> i32 {
    // SAFETY: glibc returns the thread's valid errno address.
    unsafe { *libc::__errno_location() }
}

/// Sets the caller's errno.
pub(crate) fn set_errno(error: i32) {
    // SAFETY: glibc returns the thread's valid errno address.
    unsafe { *libc::__errno_location() = error };
}
