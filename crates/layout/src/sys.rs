//! Direct system calls: libc's constructors have not run yet.

use core::arch::asm;

/// Makes a system call; negative results are errors.
///
/// # Safety
/// The contract of the system call.
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

/// Opens a file for reading; the path is zero-terminated.
pub(crate) fn open(path: &[u8]) -> Option<i32> {
    let flags = (libc::O_RDONLY | libc::O_CLOEXEC) as usize;
    // SAFETY: a C string.
    let fd =
        unsafe { call(libc::SYS_openat, [libc::AT_FDCWD as usize, path.as_ptr() as usize, flags, 0, 0, 0]) };
    i32::try_from(fd).ok().filter(|&fd| fd >= 0)
}

pub(crate) fn close(fd: i32) {
    // SAFETY: a descriptor that this library opened.
    unsafe { call(libc::SYS_close, [fd as usize, 0, 0, 0, 0, 0]) };
}

/// Fills `room` from this offset of a file; returns false if the file is too short.
pub(crate) fn read_at(fd: i32, room: &mut [u8], offset: u64) -> bool {
    let mut done = 0;
    while done < room.len() {
        let rest = &mut room[done..];
        let args = [fd as usize, rest.as_mut_ptr() as usize, rest.len(), offset as usize + done, 0, 0];
        // SAFETY: there is room for the data.
        match unsafe { call(libc::SYS_pread64, args) } {
            got @ 1.. => done += got as usize,
            _ => return false,
        }
    }
    true
}

/// The treatment of an existing mapping at the same address.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum MapMode {
    /// Fails if something is mapped there.
    Free,
    /// Replaces the existing mapping, which belongs to the first load or to this library.
    Replace,
}

/// Maps fresh memory.
pub(crate) fn map(at: usize, len: usize, protection: i32, mode: MapMode) -> bool {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    map_with(at, len, protection, flags, mode, (-1, 0))
}

/// Maps a part of a file.
pub(crate) fn map_file(at: usize, len: usize, protection: i32, fd: i32, offset: u64) -> bool {
    map_with(at, len, protection, libc::MAP_PRIVATE, MapMode::Replace, (fd, offset))
}

fn map_with(at: usize, len: usize, protection: i32, flags: i32, mode: MapMode, file: (i32, u64)) -> bool {
    let fixed = if mode == MapMode::Free { libc::MAP_FIXED_NOREPLACE } else { libc::MAP_FIXED };
    let args = [at, len, protection as usize, (flags | fixed) as usize, file.0 as usize, file.1 as usize];
    // SAFETY: by the callers' choice of `mode`, a replaced mapping is no longer used.
    unsafe { call(libc::SYS_mmap, args) == at as isize }
}

pub(crate) fn unmap(from: usize, to: usize) {
    if from < to {
        // SAFETY: memory of the first load that is no longer used.
        unsafe { call(libc::SYS_munmap, [from, to - from, 0, 0, 0, 0]) };
    }
}

/// Returns whether so much address space may be reserved.
pub(crate) fn can_reserve(len: usize) -> bool {
    let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE) as usize;
    // SAFETY: a new mapping, which is removed at once.
    unsafe {
        let at = call(libc::SYS_mmap, [0, len, libc::PROT_NONE as usize, flags, usize::MAX, 0]);
        at >= 0 && call(libc::SYS_munmap, [at as usize, len, 0, 0, 0, 0]) == 0
    }
}

/// Returns the end of the heap, according to `brk`.
pub(crate) fn heap_end() -> usize {
    // SAFETY: a query without side effects.
    unsafe { call(libc::SYS_brk, [0; 6]) as usize }
}

/// Returns the soft limit of the stack size.
pub(crate) fn stack_limit() -> u64 {
    let mut limit = libc::rlimit64 { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: there is room for the result.
    unsafe { call(libc::SYS_prlimit64, [0, libc::RLIMIT_STACK as usize, 0, &raw mut limit as usize, 0, 0]) };
    limit.rlim_cur
}

pub(crate) fn write_stderr(text: &[u8]) {
    // SAFETY: the kernel only reads the text.
    unsafe { call(libc::SYS_write, [2, text.as_ptr() as usize, text.len(), 0, 0, 0]) };
}

pub(crate) fn exit(status: i32) -> ! {
    loop {
        // SAFETY: does not return.
        unsafe { call(libc::SYS_exit_group, [status as usize, 0, 0, 0, 0, 0]) };
    }
}
