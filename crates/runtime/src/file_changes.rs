//! Changes of files, recorded before they are made, so that the controller can undo them after the run.
//!
//! Whatever a run changes, the next one should find the files as they were. The record of a change says what was there
//! before; the controller goes through the records from the last to the first. A path that was recorded is not recorded
//! again, unless a file was renamed since: then the path may stand for another file.
//!
//! If the plan says so, the run ends before its first change instead.

use crate::{end, file_names::FilePath, log::Log, state::State, sys};
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use unsnarl_wire::{CHANGE_BYTES, CHILD, FileRule, PriorState, RawChange};

/// The number of symbolic links that are followed.
const MAX_LINKS: usize = 16;

/// The effect of a call on a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// Nothing.
    None,
    /// Creates it if it does not exist.
    Create,
    /// Changes the contents if it exists.
    Contents,
    /// Changes the contents, or creates it.
    CreateOrContents,
    /// Removes it if it exists.
    Remove,
    /// Changes permissions, owner or times if it exists.
    Attributes,
}

impl Change {
    /// Returns the effect of opening a file with these flags.
    pub(crate) const fn of_open(flags: i32) -> Self {
        let writes = flags & libc::O_ACCMODE != libc::O_RDONLY || flags & libc::O_TRUNC != 0;
        if flags & libc::O_TMPFILE == libc::O_TMPFILE || flags & libc::O_PATH != 0 {
            return Self::None;
        }
        match (flags & libc::O_CREAT != 0, writes) {
            (true, _) if flags & libc::O_EXCL != 0 => Self::Create,
            (true, true) => Self::CreateOrContents,
            (true, false) => Self::Create,
            (false, true) => Self::Contents,
            (false, false) => Self::None,
        }
    }

    const fn applies(self, exists: bool) -> bool {
        match self {
            Self::None => false,
            Self::Create => !exists,
            Self::CreateOrContents => true,
            Self::Contents | Self::Remove | Self::Attributes => exists,
        }
    }
}

/// Hashes of the paths that this run has recorded.
#[derive(Debug, Default)]
pub(crate) struct RecordedPaths(Vec<u64>);

impl State {
    /// Prepares for a change: records what is there, or ends the run. `follows`: the call follows a symbolic link.
    pub(crate) fn before_change(&mut self, path: &FilePath, change: Change, follows: bool) {
        if change == Change::None || path.is_of_kernel() {
            return;
        }
        let mut status = status_of(path);
        let is_link =
            |status: &Option<libc::stat>| status.is_some_and(|s| s.st_mode & libc::S_IFMT == libc::S_IFLNK);
        let mut target = None;
        for _ in 0..MAX_LINKS {
            if !follows || !is_link(&status) {
                break;
            }
            let Some(next) = target.as_ref().unwrap_or(path).target() else { break };
            status = status_of(&next);
            target = Some(next);
        }
        let path = target.as_ref().unwrap_or(path);
        let kind = status.map(|status| status.st_mode & libc::S_IFMT);
        let is_restorable = matches!(kind, None | Some(libc::S_IFREG | libc::S_IFLNK | libc::S_IFDIR));
        let is_open_directory =
            kind == Some(libc::S_IFDIR) && matches!(change, Change::Contents | Change::CreateOrContents);
        if !change.applies(status.is_some()) || !is_restorable || is_open_directory {
            return;
        }
        if self.is_foreign(status.as_ref(), path) {
            end::changes_files(self, path.as_bytes());
        }
        if !self.note_change(path) || !self.recorded_paths.insert(path) {
            return;
        }
        match (status, kind) {
            (None, _) => self.log.record_change(PriorState::Absent, None, path, &[], None),
            (Some(status), Some(libc::S_IFLNK)) => {
                if let Some(target) = path.link_text() {
                    self.log.record_change(PriorState::Link, Some(&status), path, target.as_bytes(), None);
                }
            }
            (Some(status), Some(libc::S_IFDIR)) => {
                self.log.record_change(PriorState::Directory, Some(&status), path, &[], None);
            }
            (Some(status), _) => {
                self.log.record_change(PriorState::File, Some(&status), path, &[], Some(path))
            }
        }
    }

    /// Returns whether an overlay may fail to change this path, because it or its directory belongs to another user.
    fn is_foreign(&self, status: Option<&libc::stat>, path: &FilePath) -> bool {
        /// The owner of files whose real owner has no number in the user namespace.
        const NOBODY: u32 = 65_534;
        if FileRule::from_number(self.log.header().plan.files) != FileRule::UndoPrivate {
            return false;
        }
        // SAFETY: has no arguments and no effect.
        let user = unsafe { sys::call(libc::SYS_geteuid, [0; 6]) } as u32;
        let is_foreign =
            |status: &libc::stat| status.st_uid == NOBODY || (user != 0 && status.st_uid != user);
        let directory = path.parent().filter(|directory| !self.is_private_root(directory));
        status.is_some_and(is_foreign)
            || directory.and_then(|directory| status_of(&directory)).is_some_and(|status| is_foreign(&status))
    }

    /// Returns whether a directory is covered as such.
    fn is_private_root(&self, path: &FilePath) -> bool {
        self.log.header().private_directories.split(|&byte| byte == 0).any(|root| root == path.as_bytes())
    }

    /// Prepares for a file to get another name: records what has that name. `exchanges`: that gets the name of the file.
    pub(crate) fn before_rename(&mut self, from: &FilePath, to: &FilePath, exchanges: bool) {
        let Some(status) = status_of(from) else { return };
        if from.is_of_kernel() || from.as_bytes() == to.as_bytes() {
            return;
        }
        let is_directory = |status: &libc::stat| status.st_mode & libc::S_IFMT == libc::S_IFDIR;
        let rule = FileRule::from_number(self.log.header().plan.files);
        if is_directory(&status) && rule == FileRule::UndoPrivate {
            // An overlay refuses to rename the directories below it.
            end::changes_files(self, from.as_bytes());
        }
        let has_directories = is_directory(&status) || status_of(to).as_ref().is_some_and(is_directory);
        if exchanges && has_directories && rule == FileRule::Undo {
            end::refuse(
                "it exchanges directories, which cannot be restored after each run; \
                 --share-files leaves files as the runs leave them",
            );
        }
        self.before_change(to, Change::Remove, false);
        self.note_change(from);
    }

    /// Records that a file got another name.
    pub(crate) fn after_rename(&mut self, from: &FilePath, to: &FilePath) {
        let is_recorded = FileRule::from_number(self.log.header().plan.files) != FileRule::Keep;
        if is_recorded && !from.is_of_kernel() && from.as_bytes() != to.as_bytes() {
            self.log.record_change(PriorState::Renamed, None, to, from.as_bytes(), None);
            self.recorded_paths.0.clear();
        }
    }

    /// Prepares for the start of a child, whose changes are not seen.
    pub(crate) fn before_child(&self) {
        if FileRule::from_number(self.log.header().plan.files) == FileRule::Stop {
            end::changes_files(self, CHILD.as_bytes());
        }
    }

    /// Records that a path did not exist before a call that has just created it. [`before_change`](Self::before_change)
    /// was called with another path that did not exist.
    pub(crate) fn after_creation_of(&mut self, path: &FilePath) {
        if !path.is_of_kernel() && self.note_change(path) && self.recorded_paths.insert(path) {
            self.log.record_change(PriorState::Absent, None, path, &[], None);
        }
    }

    /// Notes that the run changes files; returns whether changes are recorded.
    fn note_change(&self, path: &FilePath) -> bool {
        let header = self.log.header();
        let rule = FileRule::from_number(header.plan.files);
        let is_private = || {
            let mut directories = header.private_directories.split(|&byte| byte == 0);
            directories.any(|directory| !directory.is_empty() && path.is_in(directory))
        };
        if rule == FileRule::Stop || (rule == FileRule::UndoPrivate && !is_private()) {
            end::changes_files(self, path.as_bytes());
        }
        header.changed_files.store(1, Ordering::Relaxed);
        rule != FileRule::Keep
    }
}

impl RecordedPaths {
    /// Adds a path; returns false if it was there.
    fn insert(&mut self, path: &FilePath) -> bool {
        // FNV-1a.
        let hash = path.as_bytes().iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, &byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        let is_new = !self.0.contains(&hash);
        if is_new {
            self.0.push(hash);
        }
        is_new
    }
}

/// Returns the status of a path itself, not of what it links to.
fn status_of(path: &FilePath) -> Option<libc::stat> {
    // SAFETY: plain numbers, which the kernel fills in.
    let mut status: libc::stat = unsafe { core::mem::zeroed() };
    let args = [
        libc::AT_FDCWD as usize,
        path.addr(),
        &raw mut status as usize,
        libc::AT_SYMLINK_NOFOLLOW as usize,
        0,
        0,
    ];
    // SAFETY: the path ends with a zero, and there is room for the result.
    (unsafe { sys::call(libc::SYS_newfstatat, args) } == 0).then_some(status)
}

impl Log {
    /// Records what is at a path; `contents` is the path of a file whose contents are recorded.
    fn record_change(
        &self,
        kind: PriorState,
        status: Option<&libc::stat>,
        path: &FilePath,
        other: &[u8],
        contents: Option<&FilePath>,
    ) {
        let header = self.header();
        let used = header.changes.load(Ordering::Relaxed);
        let size = status.filter(|_| contents.is_some()).map_or(0, |status| status.st_size as u64);
        let mut change = RawChange {
            kind: kind as u32,
            path_len: path.as_bytes().len() as u64,
            other_len: other.len() as u64,
            contents_len: size,
            ..RawChange::default()
        };
        if let Some(status) = status {
            change.mode = status.st_mode & 0o7777;
            change.owner = [status.st_uid, status.st_gid];
            change.accessed = [status.st_atime, status.st_atime_nsec];
            change.modified = [status.st_mtime, status.st_mtime_nsec];
        }
        let fits = change.size().is_some_and(|bytes| used + bytes <= CHANGE_BYTES);
        if !fits {
            end::refuse(
                "it changes files that are too large to be restored after each run (64 MiB in all); \
                 --share-files leaves files as the runs leave them",
            );
        }
        let at = self.place(header.regions.changes + used);
        // SAFETY: within the region, as checked.
        unsafe {
            at.cast::<RawChange>().write(change);
            let mut to = at.add(size_of::<RawChange>());
            for bytes in [path.as_bytes(), other] {
                core::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
                to = to.add(bytes.len());
            }
            if let Some(path) = contents {
                read_contents(path, to, size as usize);
            }
        }
        header.changes.store(used + change.size().unwrap_or(0), Ordering::Release);
    }
}

/// Reads a file of this size.
///
/// # Safety
/// There is room for so many bytes.
unsafe fn read_contents(path: &FilePath, to: *mut u8, size: usize) {
    let args = [libc::AT_FDCWD as usize, path.addr(), (libc::O_RDONLY | libc::O_CLOEXEC) as usize, 0, 0, 0];
    // SAFETY: the path ends with a zero.
    let Ok(fd) = usize::try_from(unsafe { sys::call(libc::SYS_openat, args) }) else {
        end::refuse(
            "it changes a file that cannot be read, and so not be restored after each run; \
             --share-files leaves files as the runs leave them",
        )
    };
    let mut done = 0;
    while done < size {
        // SAFETY: the caller's contract.
        let got = unsafe { sys::call(libc::SYS_pread64, [fd, to as usize + done, size - done, done, 0, 0]) };
        if got <= 0 {
            break;
        }
        done += got as usize;
    }
    // SAFETY: the descriptor was opened above.
    unsafe { sys::call(libc::SYS_close, [fd, 0, 0, 0, 0, 0]) };
}
