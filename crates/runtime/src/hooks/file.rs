//! Operations on files: by their paths, and on the contents of regular files.
//!
//! While several threads are alive, each is a schedule point and an event on the file. Changes are prepared first, also
//! while a thread is alone, so that they can be undone after the run ([`crate::file_changes`]).

#![allow(improper_ctypes_definitions, reason = "called only from Rust; the ABI lets it unwind")]

use super::io::finish;
use crate::{file_changes::Change, file_names::FilePath, heap, stack, state::Runtime, sys};
use core::ffi::{c_char, c_int, c_void};
use unsnarl_model::{FileCall, FileName, Flags, Op, Order};

/// A path, and the directory that it is relative to.
type Place = (i32, *const c_char);

const HERE: i32 = libc::AT_FDCWD;

/// The meaning of a new name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NewName {
    /// The file has only this name then.
    Only,
    /// The file keeps its other name.
    Additional,
    /// The file that had this name gets the other one.
    Exchanged,
}

/// A call on one path.
#[derive(Clone, Copy)]
struct PathCall {
    op: Op,
    call: FileCall,
    change: Change,
    /// It follows a symbolic link.
    follows: bool,
    place: Place,
    pc: u64,
}

impl PathCall {
    /// A call that only looks at a file.
    const fn query(place: Place, pc: u64) -> Self {
        Self { op: Op::FileRead, call: FileCall::Query, change: Change::None, follows: true, place, pc }
    }

    const fn create(call: FileCall, place: Place, pc: u64) -> Self {
        Self { op: Op::FileCreate, call, change: Change::Create, follows: false, place, pc }
    }

    const fn remove(call: FileCall, place: Place, pc: u64) -> Self {
        Self { op: Op::FileRemove, call, change: Change::Remove, follows: false, place, pc }
    }

    const fn change(change: Change, follows: bool, place: Place, pc: u64) -> Self {
        Self { op: Op::FileWrite, call: FileCall::Transfer, change, follows, place, pc }
    }
}

impl Runtime {
    /// Returns the encoded name of the file that a call is about; 0 if the call is no event.
    fn name_of_call(&mut self, call: &PathCall) -> u64 {
        let (at, path) = call.place;
        stack::run_isolated(|| {
            let Some(path) = FilePath::of(at, path) else { return 0 };
            self.state.name_of(&path, call.op != Op::FileRead)
        })
    }

    fn prepare_change(&mut self, call: &PathCall) {
        let (at, path) = call.place;
        let state = &mut self.state;
        stack::run_isolated(|| {
            heap::with_plan_heap(|| {
                if let Some(path) = FilePath::of(at, path) {
                    state.before_change(&path, call.change, call.follows);
                }
            });
        });
    }

    /// Prepares for a change by a descriptor.
    fn prepare_change_of(&mut self, fd: c_int) {
        let state = &mut self.state;
        stack::run_isolated(|| {
            heap::with_plan_heap(|| {
                if let Some(path) = FilePath::of_descriptor(fd) {
                    state.before_change(&path, Change::Attributes, false);
                }
            });
        });
    }

    /// Prepares for the creation of a file, without an event.
    pub(super) fn prepare_creation(&mut self, path: *const c_char) {
        self.prepare_change(&PathCall::create(FileCall::Transfer, (HERE, path), 0));
    }

    /// Records that a file was created whose name was not known before; returns its encoded name.
    pub(super) fn note_creation(&mut self, path: *const c_char) -> u64 {
        let state = &mut self.state;
        stack::run_isolated(|| {
            let Some(path) = FilePath::of(HERE, path) else { return 0 };
            heap::with_plan_heap(|| state.after_creation_of(&path));
            state.name_of(&path, true)
        })
    }

    /// Prepares for a change of shared memory, which has a name without a directory.
    fn prepare_shared_memory(&mut self, name: *const c_char, change: Change) {
        let state = &mut self.state;
        stack::run_isolated(|| {
            heap::with_plan_heap(|| {
                if let Some(path) = FilePath::of_shared_memory(name) {
                    state.before_change(&path, change, false);
                }
            });
        });
    }

    /// Returns whether operations on the file behind a descriptor are events.
    pub(super) fn is_file_event(&self, fd: c_int) -> bool {
        self.state.watches_files() && self.state.open_files.of(fd).is_some()
    }

    /// Waits for the turn of an operation on the file behind a descriptor; returns its encoded name, or 0 if the
    /// operation is no event.
    pub(super) extern "C-unwind" fn file_turn(&mut self, op: Op, fd: c_int, pc: u64) -> u64 {
        let name = self.state.open_files.of(fd).filter(|_| self.state.watches_files()).unwrap_or(0);
        if name != 0 {
            self.turn(op, name as usize, pc);
        }
        name
    }

    /// Logs an operation on a file, whose turn it was; the result is as the kernel returns it.
    pub(super) fn log_file(&mut self, op: Op, name: u64, call: FileCall, pc: u64, result: isize) {
        if name != 0 {
            let flags = if result < 0 { Flags::FAILED } else { Flags::NONE };
            let access = (name as usize, call as u64, Order::Relaxed);
            self.log_access(op, flags, pc, access, result.unsigned_abs() as u64);
        }
    }

    /// Makes a call on the file behind a descriptor.
    pub(super) extern "C-unwind" fn on_descriptor<T>(
        &mut self,
        (op, call): (Op, FileCall),
        fd: c_int,
        pc: u64,
        job: impl FnOnce() -> T,
        result: impl Fn(&T) -> isize,
    ) -> T {
        let name = self.file_turn(op, fd, pc);
        let done = job();
        self.log_file(op, name, call, pc, result(&done));
        done
    }

    /// Makes a call on a path.
    extern "C-unwind" fn on_path<T>(
        &mut self,
        call: &PathCall,
        job: impl FnOnce(&mut Self) -> T,
        has_failed: impl Fn(&T) -> bool,
    ) -> T {
        let is_event = self.state.watches_files();
        if !is_event && call.change == Change::None {
            return job(self);
        }
        let name = if is_event { self.name_of_call(call) } else { 0 };
        if name != 0 {
            self.turn(call.op, name as usize, call.pc);
        }
        if call.change != Change::None {
            self.prepare_change(call);
        }
        let done = job(self);
        let result = if has_failed(&done) { -(sys::errno() as isize) } else { 0 };
        self.log_file(call.op, name, call.call, call.pc, result);
        done
    }

    /// Makes a call that gives a file another name.
    extern "C-unwind" fn on_two_paths(
        &mut self,
        (from, to): (Place, Place),
        kind: NewName,
        pc: u64,
        job: impl FnOnce() -> c_int,
    ) -> c_int {
        let is_event = self.state.watches_files();
        let mut other = 0;
        let name = if is_event {
            stack::run_isolated(|| {
                let (Some(from), Some(to)) = (FilePath::of(from.0, from.1), FilePath::of(to.0, to.1)) else {
                    return 0;
                };
                other = self.state.name_of(&from, true);
                self.state.name_of(&to, true)
            })
        } else {
            0
        };
        let other = FileName::from_addr(other).filter(|_| name != 0);
        if other.is_some() {
            self.turn(Op::FileRename, name as usize, pc);
        }
        let state = &mut self.state;
        stack::run_isolated(|| {
            heap::with_plan_heap(|| {
                let Some(to) = FilePath::of(to.0, to.1) else { return };
                match (FilePath::of(from.0, from.1), kind) {
                    (Some(_), NewName::Additional) => state.before_change(&to, Change::Create, false),
                    (Some(from), _) => state.before_rename(&from, &to, kind == NewName::Exchanged),
                    (None, _) => {}
                }
            });
        });
        let done = job();
        if done == 0 && kind != NewName::Additional {
            let state = &mut self.state;
            stack::run_isolated(|| {
                heap::with_plan_heap(|| {
                    if let (Some(from), Some(to)) = (FilePath::of(from.0, from.1), FilePath::of(to.0, to.1)) {
                        state.after_rename(&from, &to);
                    }
                });
            });
        }
        if let Some(other) = other {
            let (flags, error) =
                if done == 0 { (Flags::NONE, 0) } else { (Flags::FAILED, sys::errno() as u64) };
            let (size, value) = other.encode_other(error);
            self.log_access(Op::FileRename, flags, pc, (name as usize, size, Order::Relaxed), value);
        }
        done
    }
}

/// Opens a file; `fd_of` returns the descriptor that the call made.
pub(super) extern "C-unwind" fn open<T>(
    runtime: &mut Runtime,
    place: Place,
    flags: c_int,
    pc: u64,
    job: impl FnOnce(&mut Runtime) -> T,
    fd_of: impl Fn(&T) -> c_int,
) -> T {
    let op = match () {
        () if flags & libc::O_CREAT != 0 => Op::FileCreate,
        () if flags & libc::O_TRUNC != 0 => Op::FileWrite,
        () => Op::FileRead,
    };
    let follows = flags & libc::O_NOFOLLOW == 0;
    let call = PathCall { op, call: FileCall::Open, change: Change::of_open(flags), follows, place, pc };
    let name = runtime.name_of_call(&call);
    let done = runtime.on_path(&call, job, |done| fd_of(done) < 0);
    let fd = fd_of(&done);
    if fd >= 0 {
        runtime.state.open_files.set(fd, name);
    }
    done
}

/// Returns the flags of `open` that correspond to a mode of `fopen`.
pub(super) fn flags_of_mode(mode: *const c_char) -> c_int {
    let mode = crate::log::c_bytes(mode);
    let has = |letter: u8| mode.contains(&letter);
    let access = match (mode.first(), has(b'+')) {
        (_, true) => libc::O_RDWR,
        (Some(b'r') | None, false) => libc::O_RDONLY,
        _ => libc::O_WRONLY,
    };
    access
        | match mode.first() {
            Some(b'w') => libc::O_CREAT | libc::O_TRUNC,
            Some(b'a') => libc::O_CREAT | libc::O_APPEND,
            _ => 0,
        }
        | if has(b'x') { libc::O_EXCL } else { 0 }
}

/// Moves the position of an open file.
unsafe extern "C-unwind" fn seek(
    runtime: &mut Runtime,
    fd: c_int,
    offset: i64,
    whence: c_int,
    pc: u64,
) -> i64 {
    // SAFETY: moves a position only.
    let job =
        || unsafe { sys::call(libc::SYS_lseek, [fd as usize, offset as usize, whence as usize, 0, 0, 0]) };
    let position = |result: &isize| (*result).min(0);
    finish(Ok(runtime.on_descriptor((Op::FileRead, FileCall::Seek), fd, pc, job, position))) as i64
}

/// Returns whether the call has failed.
const fn failed(result: &c_int) -> bool {
    *result < 0
}

fn is_null(result: &*mut c_void) -> bool {
    result.is_null()
}

hooks! {
    fn unlink(path: *const c_char) -> c_int, |runtime, pc| {
        runtime.on_path(&PathCall::remove(FileCall::Transfer, (HERE, path), pc), |_| real::unlink(path), failed)
    }

    fn unlinkat(at: c_int, path: *const c_char, flags: c_int) -> c_int, |runtime, pc| {
        let call = if flags & libc::AT_REMOVEDIR == 0 { FileCall::Transfer } else { FileCall::Directory };
        runtime.on_path(&PathCall::remove(call, (at, path), pc), |_| real::unlinkat(at, path, flags), failed)
    }

    fn remove(path: *const c_char) -> c_int, |runtime, pc| {
        runtime.on_path(&PathCall::remove(FileCall::Transfer, (HERE, path), pc), |_| real::remove(path), failed)
    }

    fn rmdir(path: *const c_char) -> c_int, |runtime, pc| {
        runtime.on_path(&PathCall::remove(FileCall::Directory, (HERE, path), pc), |_| real::rmdir(path), failed)
    }

    fn mkdir(path: *const c_char, mode: u32) -> c_int, |runtime, pc| {
        runtime.on_path(&PathCall::create(FileCall::Directory, (HERE, path), pc), |_| real::mkdir(path, mode), failed)
    }

    fn mkdirat(at: c_int, path: *const c_char, mode: u32) -> c_int, |runtime, pc| {
        runtime.on_path(&PathCall::create(FileCall::Directory, (at, path), pc), |_| real::mkdirat(at, path, mode), failed)
    }

    fn mkfifo(path: *const c_char, mode: u32) -> c_int, |runtime, pc| {
        runtime.on_path(&PathCall::create(FileCall::Transfer, (HERE, path), pc), |_| real::mkfifo(path, mode), failed)
    }

    fn mknod(path: *const c_char, mode: u32, device: u64) -> c_int, |runtime, pc| {
        runtime.on_path(&PathCall::create(FileCall::Transfer, (HERE, path), pc), |_| real::mknod(path, mode, device), failed)
    }

    fn symlink(target: *const c_char, path: *const c_char) -> c_int, |runtime, pc| {
        runtime.on_path(&PathCall::create(FileCall::Transfer, (HERE, path), pc), |_| real::symlink(target, path), failed)
    }

    fn symlinkat(target: *const c_char, at: c_int, path: *const c_char) -> c_int, |runtime, pc| {
        runtime.on_path(&PathCall::create(FileCall::Transfer, (at, path), pc), |_| real::symlinkat(target, at, path), failed)
    }

    fn link(from: *const c_char, to: *const c_char) -> c_int, |runtime, pc| {
        runtime.on_two_paths(((HERE, from), (HERE, to)), NewName::Additional, pc, || real::link(from, to))
    }

    fn linkat(at: c_int, from: *const c_char, to_at: c_int, to: *const c_char, flags: c_int) -> c_int, |runtime, pc| {
        runtime.on_two_paths(((at, from), (to_at, to)), NewName::Additional, pc, || real::linkat(at, from, to_at, to, flags))
    }

    fn rename(from: *const c_char, to: *const c_char) -> c_int, |runtime, pc| {
        runtime.on_two_paths(((HERE, from), (HERE, to)), NewName::Only, pc, || real::rename(from, to))
    }

    fn renameat(at: c_int, from: *const c_char, to_at: c_int, to: *const c_char) -> c_int, |runtime, pc| {
        runtime.on_two_paths(((at, from), (to_at, to)), NewName::Only, pc, || real::renameat(at, from, to_at, to))
    }

    fn renameat2(at: c_int, from: *const c_char, to_at: c_int, to: *const c_char, flags: u32) -> c_int, |runtime, pc| {
        let kind = if flags & libc::RENAME_EXCHANGE == 0 { NewName::Only } else { NewName::Exchanged };
        runtime.on_two_paths(((at, from), (to_at, to)), kind, pc, || real::renameat2(at, from, to_at, to, flags))
    }

    fn truncate(path: *const c_char, len: i64) -> c_int, |runtime, pc| {
        runtime.on_path(&PathCall::change(Change::Contents, true, (HERE, path), pc), |_| real::truncate(path, len), failed)
    }

    fn truncate64(path: *const c_char, len: i64) -> c_int, |runtime, pc| {
        runtime.on_path(&PathCall::change(Change::Contents, true, (HERE, path), pc), |_| real::truncate64(path, len), failed)
    }

    fn ftruncate(fd: c_int, len: i64) -> c_int, |runtime, pc| {
        runtime.on_descriptor((Op::FileWrite, FileCall::Transfer), fd, pc, || real::ftruncate(fd, len), outcome)
    }

    fn ftruncate64(fd: c_int, len: i64) -> c_int, |runtime, pc| {
        runtime.on_descriptor((Op::FileWrite, FileCall::Transfer), fd, pc, || real::ftruncate64(fd, len), outcome)
    }

    fn chmod(path: *const c_char, mode: u32) -> c_int, |runtime, pc| {
        runtime.on_path(&PathCall::change(Change::Attributes, true, (HERE, path), pc), |_| real::chmod(path, mode), failed)
    }

    fn fchmodat(at: c_int, path: *const c_char, mode: u32, flags: c_int) -> c_int, |runtime, pc| {
        runtime.on_path(&PathCall::change(Change::Attributes, true, (at, path), pc), |_| real::fchmodat(at, path, mode, flags), failed)
    }

    fn fchmod(fd: c_int, mode: u32) -> c_int, |runtime, pc| {
        runtime.prepare_change_of(fd);
        runtime.on_descriptor((Op::FileWrite, FileCall::Transfer), fd, pc, || real::fchmod(fd, mode), outcome)
    }

    fn chown(path: *const c_char, owner: u32, group: u32) -> c_int, |runtime, pc| {
        runtime.on_path(&PathCall::change(Change::Attributes, true, (HERE, path), pc), |_| real::chown(path, owner, group), failed)
    }

    fn fchown(fd: c_int, owner: u32, group: u32) -> c_int, |runtime, pc| {
        runtime.prepare_change_of(fd);
        runtime.on_descriptor((Op::FileWrite, FileCall::Transfer), fd, pc, || real::fchown(fd, owner, group), outcome)
    }

    fn utimensat(at: c_int, path: *const c_char, times: *const libc::timespec, flags: c_int) -> c_int, |runtime, pc| {
        runtime.on_path(&PathCall::change(Change::Attributes, true, (at, path), pc), |_| real::utimensat(at, path, times, flags), failed)
    }

    fn utimes(path: *const c_char, times: *const libc::timeval) -> c_int, |runtime, pc| {
        runtime.on_path(&PathCall::change(Change::Attributes, true, (HERE, path), pc), |_| real::utimes(path, times), failed)
    }

    fn utime(path: *const c_char, times: *const libc::utimbuf) -> c_int, |runtime, pc| {
        runtime.on_path(&PathCall::change(Change::Attributes, true, (HERE, path), pc), |_| real::utime(path, times), failed)
    }

    fn futimens(fd: c_int, times: *const libc::timespec) -> c_int, |runtime, pc| {
        runtime.prepare_change_of(fd);
        runtime.on_descriptor((Op::FileWrite, FileCall::Transfer), fd, pc, || real::futimens(fd, times), outcome)
    }

    fn access(path: *const c_char, mode: c_int) -> c_int, |runtime, pc| {
        runtime.on_path(&PathCall::query((HERE, path), pc), |_| real::access(path, mode), failed)
    }

    fn faccessat(at: c_int, path: *const c_char, mode: c_int, flags: c_int) -> c_int, |runtime, pc| {
        runtime.on_path(&PathCall::query((at, path), pc), |_| real::faccessat(at, path, mode, flags), failed)
    }

    fn euidaccess(path: *const c_char, mode: c_int) -> c_int, |runtime, pc| {
        runtime.on_path(&PathCall::query((HERE, path), pc), |_| real::euidaccess(path, mode), failed)
    }

    fn eaccess(path: *const c_char, mode: c_int) -> c_int, |runtime, pc| {
        runtime.on_path(&PathCall::query((HERE, path), pc), |_| real::eaccess(path, mode), failed)
    }

    fn stat(path: *const c_char, status: *mut libc::stat) -> c_int, |runtime, pc| {
        runtime.on_path(&PathCall::query((HERE, path), pc), |_| real::stat(path, status), failed)
    }

    fn stat64(path: *const c_char, status: *mut libc::stat) -> c_int, |runtime, pc| {
        runtime.on_path(&PathCall::query((HERE, path), pc), |_| real::stat64(path, status), failed)
    }

    fn lstat(path: *const c_char, status: *mut libc::stat) -> c_int, |runtime, pc| {
        runtime.on_path(&PathCall::query((HERE, path), pc), |_| real::lstat(path, status), failed)
    }

    fn lstat64(path: *const c_char, status: *mut libc::stat) -> c_int, |runtime, pc| {
        runtime.on_path(&PathCall::query((HERE, path), pc), |_| real::lstat64(path, status), failed)
    }

    fn fstatat(at: c_int, path: *const c_char, status: *mut libc::stat, flags: c_int) -> c_int, |runtime, pc| {
        runtime.on_path(&PathCall::query((at, path), pc), |_| real::fstatat(at, path, status, flags), failed)
    }

    fn fstatat64(at: c_int, path: *const c_char, status: *mut libc::stat, flags: c_int) -> c_int, |runtime, pc| {
        runtime.on_path(&PathCall::query((at, path), pc), |_| real::fstatat64(at, path, status, flags), failed)
    }

    fn statx(at: c_int, path: *const c_char, flags: c_int, mask: u32, status: *mut libc::statx) -> c_int, |runtime, pc| {
        runtime.on_path(&PathCall::query((at, path), pc), |_| real::statx(at, path, flags, mask, status), failed)
    }

    fn fstat(fd: c_int, status: *mut libc::stat) -> c_int, |runtime, pc| {
        runtime.on_descriptor((Op::FileRead, FileCall::Query), fd, pc, || real::fstat(fd, status), outcome)
    }

    fn fstat64(fd: c_int, status: *mut libc::stat) -> c_int, |runtime, pc| {
        runtime.on_descriptor((Op::FileRead, FileCall::Query), fd, pc, || real::fstat64(fd, status), outcome)
    }

    fn readlink(path: *const c_char, text: *mut c_char, room: usize) -> isize, |runtime, pc| {
        runtime.on_path(&PathCall::query((HERE, path), pc), |_| real::readlink(path, text, room), |result| *result < 0)
    }

    fn readlinkat(at: c_int, path: *const c_char, text: *mut c_char, room: usize) -> isize, |runtime, pc| {
        runtime.on_path(&PathCall::query((at, path), pc), |_| real::readlinkat(at, path, text, room), |result| *result < 0)
    }

    fn opendir(path: *const c_char) -> *mut c_void, |runtime, pc| {
        let call = PathCall { op: Op::FileList, call: FileCall::Directory, ..PathCall::query((HERE, path), pc) };
        runtime.on_path(&call, |_| real::opendir(path), is_null)
    }

    fn shm_open(name: *const c_char, flags: c_int, mode: u32) -> c_int, |runtime, pc| {
        runtime.prepare_shared_memory(name, Change::of_open(flags));
        real::shm_open(name, flags, mode)
    }

    fn shm_unlink(name: *const c_char) -> c_int, |runtime, pc| {
        runtime.prepare_shared_memory(name, Change::Remove);
        real::shm_unlink(name)
    }

    fn lseek(fd: c_int, offset: i64, whence: c_int) -> i64, |runtime, pc| {
        seek(runtime, fd, offset, whence, pc)
    }

    fn lseek64(fd: c_int, offset: i64, whence: c_int) -> i64, |runtime, pc| {
        seek(runtime, fd, offset, whence, pc)
    }
}

/// Returns the result of a C function as the kernel would return it.
fn outcome(result: &c_int) -> isize {
    if failed(result) { -(sys::errno() as isize) } else { 0 }
}
