//! Open files, which a fork shares with its parent. Each run that continues from a snapshot restores them.
//!
//! File positions are saved and restored, and also the contents of files that may be written. Pipes, sockets,
//! terminals and other kernel queues cannot be restored, nor can shared memory.

use crate::{maps, sys};
use alloc::vec::Vec;
use core::cell::UnsafeCell;

/// The maximum size of a saved file.
const MAX_FILE_BYTES: usize = 16 << 20;

/// Files that were open before the program began: their input comes from outside. Whether it is the same for
/// all runs does not depend on snapshots.
struct InheritedFiles(UnsafeCell<Vec<i32>>);

// SAFETY: only the carrier touches it.
unsafe impl Sync for InheritedFiles {}

static INHERITED: InheritedFiles = InheritedFiles(UnsafeCell::new(Vec::new()));

/// Notes which files are open before the program begins.
pub(crate) fn note_inherited() {
    // SAFETY: called on the carrier, and no other code reads it meanwhile.
    unsafe { *INHERITED.0.get() = open_files().unwrap_or_default() };
}

/// Returns the files that were open before the program began.
pub(crate) fn inherited() -> &'static [i32] {
    // SAFETY: called on the carrier; it no longer changes.
    unsafe { &*INHERITED.0.get() }
}

/// The open files of a process.
pub(crate) struct OpenFiles(Vec<File>);

/// The reason why the files cannot be restored.
pub(crate) struct CannotRestore(pub(crate) &'static str);

struct File {
    fd: i32,
    offset: usize,
    /// Its contents, if it may be written.
    contents: Option<Vec<u8>>,
}

impl OpenFiles {
    /// Saves the current state; `channel` belongs to the runtime.
    pub(crate) fn save(channel: i32) -> Result<Self, CannotRestore> {
        if has_children() {
            return Err(CannotRestore("it has a child process"));
        }
        if has_alarm() {
            return Err(CannotRestore("it has set a timer"));
        }
        if maps::has_shared_memory()
            .ok_or(CannotRestore("its memory cannot be listed (is /proc mounted?)"))?
        {
            return Err(CannotRestore("it has memory that other processes can write"));
        }
        // The standard streams are the controller's, which restores them itself.
        let fds = open_files().ok_or(CannotRestore("its open files cannot be listed"))?;
        // SAFETY: called on the carrier; it no longer changes.
        let inherited = unsafe { &*INHERITED.0.get() };
        let fds = fds.into_iter().filter(|fd| *fd > 2 && *fd != channel && !inherited.contains(fd));
        fds.map(File::save).collect::<Result<_, _>>().map(Self)
    }

    /// Returns whether there is nothing to restore.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn restore(&self) {
        self.0.iter().for_each(File::restore);
    }
}

impl File {
    fn save(fd: i32) -> Result<Self, CannotRestore> {
        // SAFETY: plain numbers, which the kernel fills in.
        let mut stat: libc::stat = unsafe { core::mem::zeroed() };
        // SAFETY: there is room for the result.
        let known = unsafe { sys::call(libc::SYS_fstat, [fd as usize, &raw mut stat as usize, 0, 0, 0, 0]) };
        let kind = stat.st_mode & libc::S_IFMT;
        let memory_device = kind == libc::S_IFCHR && libc::major(stat.st_rdev) == 1;
        match kind {
            _ if known < 0 => return Err(CannotRestore("it has an open file of unknown type")),
            libc::S_IFREG | libc::S_IFDIR => {}
            libc::S_IFCHR if memory_device => {}
            libc::S_IFCHR => return Err(CannotRestore("it has a terminal or another device open")),
            libc::S_IFIFO => return Err(CannotRestore("it has a pipe open")),
            libc::S_IFSOCK => return Err(CannotRestore("it has a socket open")),
            _ => {
                return Err(CannotRestore("it has an open epoll, eventfd or timerfd descriptor"));
            }
        }
        // SAFETY: a query without side effects.
        let offset =
            unsafe { sys::call(libc::SYS_lseek, [fd as usize, 0, libc::SEEK_CUR as usize, 0, 0, 0]) };
        // SAFETY: a query without side effects.
        let flags = unsafe { sys::call(libc::SYS_fcntl, [fd as usize, libc::F_GETFL as usize, 0, 0, 0, 0]) };
        let written = kind == libc::S_IFREG && flags as i32 & libc::O_ACCMODE != libc::O_RDONLY;
        let contents = if !written {
            None
        } else if stat.st_size as usize > MAX_FILE_BYTES {
            return Err(CannotRestore("it writes a file of more than 16 MiB"));
        } else {
            let contents = contents(fd, stat.st_size as usize);
            Some(contents.ok_or(CannotRestore("it writes a file that cannot be read"))?)
        };
        Ok(Self { fd, offset: offset.max(0) as usize, contents })
    }

    fn restore(&self) {
        let fd = self.fd as usize;
        // SAFETY: a file of this process; its bytes are only read.
        unsafe {
            if let Some(contents) = &self.contents {
                sys::call(libc::SYS_ftruncate, [fd, 0, 0, 0, 0, 0]);
                sys::call(libc::SYS_lseek, [fd, 0, libc::SEEK_SET as usize, 0, 0, 0]);
                let mut left = contents.as_slice();
                while let written @ 1.. =
                    sys::call(libc::SYS_write, [fd, left.as_ptr() as usize, left.len(), 0, 0, 0])
                {
                    left = &left[written as usize..];
                }
            }
            sys::call(libc::SYS_lseek, [fd, self.offset, libc::SEEK_SET as usize, 0, 0, 0]);
        }
    }
}

/// Reads the contents of a file that may be open for writing only.
fn contents(fd: i32, size: usize) -> Option<Vec<u8>> {
    let mut path = *b"/proc/self/fd/\0\0\0\0\0\0\0\0\0\0\0\0";
    let mut digits = 1;
    while fd / 10i32.pow(digits) > 0 {
        digits += 1;
    }
    for digit in 0..digits {
        path[14 + digit as usize] = b'0' + (fd / 10i32.pow(digits - 1 - digit) % 10) as u8;
    }
    let mut bytes = alloc::vec![0; size];
    let mut at = 0;
    let again = OpenFile::new(&path)?;
    while let read @ 1.. = again.read(&mut bytes[at..]) {
        at += read as usize;
    }
    (at == size).then_some(bytes)
}

/// A file of the runtime, closed when dropped.
pub(crate) struct OpenFile(usize);

impl OpenFile {
    /// Opens for reading; the path is zero-terminated.
    pub(crate) fn new(path: &[u8]) -> Option<Self> {
        Self::open(path, libc::O_RDONLY)
    }

    /// Opens for reading and writing; the path is zero-terminated.
    pub(crate) fn for_writing(path: &[u8]) -> Option<Self> {
        Self::open(path, libc::O_RDWR)
    }

    fn open(path: &[u8], how: i32) -> Option<Self> {
        let args =
            [libc::AT_FDCWD as usize, path.as_ptr() as usize, (how | libc::O_CLOEXEC) as usize, 0, 0, 0];
        // SAFETY: the path is zero-terminated.
        let fd = unsafe { sys::call(libc::SYS_openat, args) };
        usize::try_from(fd).ok().map(Self)
    }

    /// Reads the next entries of a directory in the kernel's format.
    pub(crate) fn list(&self, room: &mut [u8]) -> isize {
        // SAFETY: there is as much room as the call says.
        unsafe { sys::call(libc::SYS_getdents64, [self.0, room.as_mut_ptr() as usize, room.len(), 0, 0, 0]) }
    }

    /// Reads at this offset; returns the number of bytes.
    pub(crate) fn read_at(&self, at: usize, room: &mut [u8]) -> isize {
        // SAFETY: there is as much room as the call says.
        unsafe { sys::call(libc::SYS_pread64, [self.0, room.as_mut_ptr() as usize, room.len(), at, 0, 0]) }
    }

    /// Writes at this offset, if the system allows it.
    pub(crate) fn write_at(&self, at: usize, bytes: &[u8]) {
        // SAFETY: the bytes are only read.
        unsafe { sys::call(libc::SYS_pwrite64, [self.0, bytes.as_ptr() as usize, bytes.len(), at, 0, 0]) };
    }

    pub(crate) fn read(&self, room: &mut [u8]) -> isize {
        // SAFETY: there is as much room as the call says.
        unsafe { sys::call(libc::SYS_read, [self.0, room.as_mut_ptr() as usize, room.len(), 0, 0, 0]) }
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        // SAFETY: the runtime's descriptor.
        unsafe { sys::call(libc::SYS_close, [self.0, 0, 0, 0, 0, 0]) };
    }
}

/// Returns the numbers of all open files.
fn open_files() -> Option<Vec<i32>> {
    let directory = OpenFile::new(b"/proc/self/fd\0")?;
    let mut fds = Vec::new();
    let mut room = alloc::vec![0u8; 32 << 10];
    loop {
        let args = [directory.0, room.as_mut_ptr() as usize, room.len(), 0, 0, 0];
        // SAFETY: there is as much room as the call says.
        let got = unsafe { sys::call(libc::SYS_getdents64, args) };
        if got <= 0 {
            return (got == 0).then_some(fds);
        }
        let mut entries = &room[..got as usize];
        // An entry: inode and position (8 bytes each), its length (2), kind (1), name.
        while entries.len() > 19 {
            let len = usize::from(u16::from_le_bytes([entries[16], entries[17]]));
            let name = crate::log::until_zero(&entries[19..len]);
            let number = name.iter().try_fold(0i32, |number, digit| {
                digit.is_ascii_digit().then(|| number * 10 + i32::from(digit - b'0'))
            });
            fds.extend(number.filter(|&fd| fd as usize != directory.0));
            entries = &entries[len..];
        }
    }
}

fn has_children() -> bool {
    let options = (libc::WEXITED | libc::WNOHANG | libc::WNOWAIT) as usize;
    // SAFETY: only a query; does not wait.
    let answer = unsafe { sys::call(libc::SYS_waitid, [libc::P_ALL as usize, 0, 0, options, 0, 0]) };
    answer != -(libc::ECHILD as isize)
}

fn has_alarm() -> bool {
    (0..3).any(|which| {
        let mut timer = [0usize; 4];
        // SAFETY: there is room for the result: interval and remaining time, in seconds and microseconds.
        unsafe { sys::call(libc::SYS_getitimer, [which, timer.as_mut_ptr() as usize, 0, 0, 0, 0]) };
        timer[2..] != [0, 0]
    })
}
