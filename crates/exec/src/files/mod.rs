//! Files that runs change: every run of a search finds them as they were at its beginning.
//!
//! A run of a server begins under the rule that it must not change files, and ends before its first change. Then
//!
//! 1. the server is started again with a private view of the directory: a mount namespace with an overlay, whose
//!    changes are in memory and seen by nobody else ([`crate::process::PrivateView`]);
//! 2. if the system does not allow that, runs use the files themselves, one run at a time.
//!
//! Ports that the program chooses are treated in the same way: it gets a network of its own, unless it talks to somebody
//! outside.
//!
//! Either way, the runtime records what was there before each change, and [`undo`] restores it after the run. A program
//! that changes no files pays for none of this.

mod undo;

pub(crate) use undo::undo;

use crate::notes;
use std::{
    path::{Path, PathBuf},
    sync::{
        PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
        atomic::{AtomicUsize, Ordering},
    },
};
use unsnarl_wire::{FileRule, NetworkRule};

/// Runs that change the files themselves take this lock for writing, all others for reading.
static FILES: RwLock<()> = RwLock::new(());

/// The permission for one run.
pub(crate) enum RunPermit {
    /// Other runs may be made at the same time.
    Shared { _guard: RwLockReadGuard<'static, ()> },
    /// No other run of this process is being made.
    Alone { _guard: RwLockWriteGuard<'static, ()> },
}

/// Waits until a run may begin; `alone`: no other run may be made at the same time.
pub(crate) fn permit(alone: bool) -> RunPermit {
    if alone {
        RunPermit::Alone { _guard: FILES.write().unwrap_or_else(PoisonError::into_inner) }
    } else {
        RunPermit::Shared { _guard: FILES.read().unwrap_or_else(PoisonError::into_inner) }
    }
}

/// The network that the runs of an executor use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NetworkView {
    /// The machine's.
    Machine,
    /// The machine's, and no run has taken a port that the program chose.
    Unused,
    /// One of its own.
    Private,
    /// The machine's, and runs are made one at a time.
    Exclusive,
}

impl NetworkView {
    /// Returns the rule for the next run.
    pub(crate) fn rule(self) -> NetworkRule {
        match self {
            Self::Machine | Self::Exclusive => NetworkRule::Machine,
            Self::Unused => NetworkRule::Stop,
            Self::Private => NetworkRule::Private,
        }
    }
}

/// The files that the runs of an executor see.
#[derive(Debug)]
pub(crate) enum FileView {
    /// The files themselves. Changes stay.
    Real,
    /// The files themselves, and no run has changed any.
    Unchanged,
    /// The files themselves. Changes are undone, and runs are made one at a time.
    Exclusive,
    /// A private view of these directories.
    Private(Vec<PathBuf>),
}

/// The number of directories with a private view.
const MAX_DIRECTORIES: usize = 6;

impl FileView {
    /// Returns the rule for the next run.
    pub(crate) fn rule(&self) -> FileRule {
        match self {
            Self::Real => FileRule::Keep,
            Self::Unchanged => FileRule::Stop,
            Self::Exclusive => FileRule::Undo,
            Self::Private(_) => FileRule::UndoPrivate,
        }
    }

    /// Returns the directories with a private view.
    pub(crate) fn directories(&self) -> &[PathBuf] {
        match self {
            Self::Private(directories) => directories,
            _ => &[],
        }
    }

    /// Returns the view in which the program may change this path; `None` if that cannot be private.
    pub(crate) fn with(&self, path: &Path, cwd: &Path) -> Option<Self> {
        let new = directory_for(path, cwd)?;
        if self.directories().iter().any(|directory| new.starts_with(directory)) {
            // The path is in a private directory already, but the change is not possible there.
            return None;
        }
        let mut directories: Vec<PathBuf> =
            self.directories().iter().filter(|directory| !directory.starts_with(&new)).cloned().collect();
        directories.push(new);
        (directories.len() <= MAX_DIRECTORIES).then_some(Self::Private(directories))
    }
}

/// Returns the directory that is made private for a change of this path: the one that the program runs in, a directory
/// for temporary files, or the one that contains the path.
fn directory_for(path: &Path, cwd: &Path) -> Option<PathBuf> {
    let temporary = [std::env::temp_dir(), "/tmp".into(), "/var/tmp".into(), "/dev/shm".into()];
    let usual = std::iter::once(cwd.to_owned()).chain(temporary);
    let mut usual = usual.filter(|directory| directory.parent().is_some() && path.starts_with(directory));
    let nearest = || path.ancestors().skip(1).find(|ancestor| ancestor.is_dir()).map(Path::to_owned);
    let directory = usual.next().or_else(nearest)?.canonicalize().ok()?;
    let is_usable =
        directory.parent().is_some() && path.starts_with(&directory) && !contains_mounts(&directory);
    is_usable.then_some(directory)
}

/// Returns whether other file systems are mounted below a directory: an overlay would hide them.
fn contains_mounts(directory: &Path) -> bool {
    let Ok(mounts) = std::fs::read_to_string("/proc/self/mountinfo") else { return true };
    let mut places = mounts.lines().filter_map(|line| line.split(' ').nth(4));
    places.any(|place| {
        let place = Path::new(place);
        place.starts_with(directory) && place != directory
    })
}

/// Notes that runs are made one at a time, if there would be several.
pub(crate) fn note_exclusive(action: &str, reason: &str) {
    if SERVERS.load(Ordering::Relaxed) > 1 {
        notes::add(format!("the program {action}, and {reason}: one run at a time, whatever -j is"));
    }
}

/// The number of servers of this process.
static SERVERS: AtomicUsize = AtomicUsize::new(0);

/// Counts a server while it exists.
pub(crate) struct ServerCount;

impl ServerCount {
    pub(crate) fn new() -> Self {
        SERVERS.fetch_add(1, Ordering::Relaxed);
        Self
    }
}

impl Drop for ServerCount {
    fn drop(&mut self) {
        SERVERS.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_path_makes_its_working_directory_private() {
        let cwd = std::env::current_dir().unwrap().canonicalize().unwrap();
        let view = FileView::Unchanged.with(&cwd.join("a/b.log"), &cwd).unwrap();
        assert_eq!(view.directories(), std::slice::from_ref(&cwd));
        assert_eq!(view.rule(), FileRule::UndoPrivate);
        assert!(view.with(&cwd.join("c"), &cwd).is_none(), "that was private already");
        assert!(FileView::Unchanged.with(Path::new("/unsnarl-test"), &cwd).is_none(), "the root cannot be");
    }
}
