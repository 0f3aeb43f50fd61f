//! Names of files: which file a call is about, and which file a descriptor refers to.
//!
//! A file is named by its absolute path, without `.`, `..` and repeated slashes. Links are not resolved: a file that is
//! reached by two paths counts as two, unless the program made the second path itself by `link`.
//!
//! Not named are the kernel's own files (`/proc`, `/sys`, `/dev`): what is in them does not depend on this program's
//! threads. Libraries and configuration of the system are named only when they are changed.

use crate::{log::c_bytes, state::State, sys};
use alloc::vec::Vec;
use core::ffi::c_char;
use unsnarl_model::FileName;

/// The maximum length of a path.
const MAX_PATH: usize = libc::PATH_MAX as usize;

/// Directories of the kernel.
const KERNEL: [&[u8]; 3] = [b"/proc", b"/sys", b"/dev"];
/// A directory of files among them.
const SHARED_MEMORY: &[u8] = b"/dev/shm";
/// Directories of libraries, programs and configuration.
const SYSTEM: [&[u8]; 7] = [b"/usr", b"/lib", b"/lib64", b"/lib32", b"/bin", b"/sbin", b"/etc"];

/// An absolute path in its simplest form, with a zero at its end.
#[derive(Clone)]
pub(crate) struct FilePath {
    bytes: [u8; MAX_PATH + 1],
    len: usize,
}

impl FilePath {
    const EMPTY: Self = Self { bytes: [0; MAX_PATH + 1], len: 0 };

    /// Returns the path that a call names, relative to the directory of `at`; `None` if it names none.
    pub(crate) fn of(at: i32, path: *const c_char) -> Option<Self> {
        Self::resolve(at, c_bytes(path))
    }

    fn resolve(at: i32, path: &[u8]) -> Option<Self> {
        if path.is_empty() {
            return None;
        }
        let mut resolved = if path[0] == b'/' { Self::EMPTY } else { Self::directory(at)? };
        resolved.append(path)?;
        Some(resolved)
    }

    /// Returns the path of named shared memory.
    pub(crate) fn of_shared_memory(name: *const c_char) -> Option<Self> {
        let mut path = Self::EMPTY;
        path.append(SHARED_MEMORY)?;
        path.append(c_bytes(name))?;
        Some(path)
    }

    /// Returns the path of an open file or directory.
    pub(crate) fn of_descriptor(fd: i32) -> Option<Self> {
        let mut link = *b"/proc/self/fd/\0\0\0\0\0\0\0\0\0\0\0\0";
        write_number(&mut link[14..], u32::try_from(fd).ok()?);
        let path = Self::read_link(&link)?;
        path.as_bytes().starts_with(b"/").then_some(path)
    }

    fn directory(at: i32) -> Option<Self> {
        if at != libc::AT_FDCWD {
            return Self::of_descriptor(at);
        }
        let mut path = Self::EMPTY;
        let args = [path.bytes.as_mut_ptr() as usize, MAX_PATH, 0, 0, 0, 0];
        // SAFETY: there is as much room as the call says.
        let len = unsafe { sys::call(libc::SYS_getcwd, args) };
        // The length includes the zero at the end; a directory that is not reachable has another first letter.
        path.len = usize::try_from(len).ok()?.checked_sub(1)?;
        if path.as_bytes() == b"/" {
            path.len = 0;
        }
        (path.len == 0 || path.bytes[0] == b'/').then_some(path)
    }

    /// Reads a symbolic link; its path is zero-terminated.
    fn read_link(link: &[u8]) -> Option<Self> {
        let mut path = Self::EMPTY;
        let args = [
            libc::AT_FDCWD as usize,
            link.as_ptr() as usize,
            path.bytes.as_mut_ptr() as usize,
            MAX_PATH,
            0,
            0,
        ];
        // SAFETY: the link's path ends with a zero, and there is as much room as the call says.
        let len = unsafe { sys::call(libc::SYS_readlinkat, args) };
        path.len = usize::try_from(len).ok()?;
        path.bytes[path.len] = 0;
        Some(path)
    }

    /// Appends the components of a path.
    fn append(&mut self, path: &[u8]) -> Option<()> {
        for component in path.split(|&byte| byte == b'/') {
            match component {
                b"" | b"." => {}
                b".." => self.len = self.as_bytes().iter().rposition(|&byte| byte == b'/').unwrap_or(0),
                name => {
                    let end = self.len + 1 + name.len();
                    if end > MAX_PATH {
                        return None;
                    }
                    self.bytes[self.len] = b'/';
                    self.bytes[self.len + 1..end].copy_from_slice(name);
                    self.len = end;
                }
            }
        }
        if self.len == 0 {
            self.bytes[0] = b'/';
            self.len = 1;
        }
        self.bytes[self.len] = 0;
        Some(())
    }

    /// Returns the path without the zero.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// Returns the address of the zero-terminated path.
    pub(crate) fn addr(&self) -> usize {
        self.bytes.as_ptr() as usize
    }

    /// Returns the directory that it is in; `None` for the root.
    pub(crate) fn parent(&self) -> Option<Self> {
        let end = self.as_bytes().iter().rposition(|&byte| byte == b'/').filter(|_| self.len > 1)?;
        let mut directory = self.clone();
        directory.len = end.max(1);
        directory.bytes[directory.len] = 0;
        Some(directory)
    }

    /// Returns the text of this path if it is a symbolic link.
    pub(crate) fn link_text(&self) -> Option<Self> {
        Self::read_link(&self.bytes[..=self.len])
    }

    /// Returns the target of this path if it is a symbolic link.
    pub(crate) fn target(&self) -> Option<Self> {
        let target = self.link_text()?;
        let mut resolved = if target.as_bytes().starts_with(b"/") {
            Self::EMPTY
        } else {
            let end = self.as_bytes().iter().rposition(|&byte| byte == b'/')?;
            let mut directory = self.clone();
            directory.len = end;
            directory
        };
        resolved.append(target.as_bytes())?;
        Some(resolved)
    }

    /// Returns whether it is one of the kernel's files.
    pub(crate) fn is_of_kernel(&self) -> bool {
        KERNEL.iter().any(|directory| self.is_in(directory)) && !self.is_in(SHARED_MEMORY)
    }

    fn is_of_system(&self) -> bool {
        SYSTEM.iter().any(|directory| self.is_in(directory))
    }

    /// Returns whether it is this directory, or below it.
    pub(crate) fn is_in(&self, directory: &[u8]) -> bool {
        self.as_bytes().strip_prefix(directory).is_some_and(|rest| matches!(rest, [] | [b'/', ..]))
    }
}

/// Writes a number in decimal.
fn write_number(place: &mut [u8], number: u32) {
    let mut digits = 1;
    while digits < 10 && number / 10u32.pow(digits) > 0 {
        digits += 1;
    }
    for digit in 0..digits {
        place[digit as usize] = b'0' + (number / 10u32.pow(digits - 1 - digit) % 10) as u8;
    }
}

/// The files behind the program's descriptors, by their encoded names; 0 for none.
#[derive(Debug, Default)]
pub(crate) struct OpenFileNames(Vec<u64>);

impl OpenFileNames {
    /// The number of descriptors that are followed.
    const MAX: usize = 1 << 16;

    /// Returns the encoded name of the file behind a descriptor.
    #[inline]
    pub(crate) fn of(&self, fd: i32) -> Option<u64> {
        self.0.get(fd as usize).copied().filter(|&name| name != 0)
    }

    pub(crate) fn set(&mut self, fd: i32, name: u64) {
        let at = fd as usize;
        if at >= Self::MAX || (name == 0 && at >= self.0.len()) {
            return;
        }
        if self.0.len() <= at {
            self.0.resize((at + 1).next_multiple_of(256), 0);
        }
        self.0[at] = name;
    }

    pub(crate) fn duplicate(&mut self, from: i32, to: i32) {
        self.set(to, self.of(from).unwrap_or(0));
    }
}

impl State {
    /// Returns whether operations on files are events: another thread may see them.
    #[inline]
    pub(crate) fn watches_files(&self) -> bool {
        self.live > 1
    }

    /// Returns the encoded name of a file, and records its path; 0 if its use is no event. `changes`: it is not only
    /// read.
    pub(crate) fn name_of(&self, path: &FilePath, changes: bool) -> u64 {
        if path.is_of_kernel() || (!changes && path.is_of_system()) {
            return 0;
        }
        let name = FileName::of(path.as_bytes());
        self.log.file(name.object(), path.as_bytes());
        name.as_addr()
    }
}
