//! Undoes the changes that a run has recorded, from the last to the first.

use crate::{memory::SharedMemory, notes, probe};
use std::{
    ffi::OsStr,
    fs::{self, File, FileTimes, Permissions},
    io::{self, Write},
    os::{
        fd::AsRawFd,
        unix::{
            ffi::OsStrExt,
            fs::{MetadataExt, PermissionsExt, lchown, symlink},
        },
    },
    path::{Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use unsnarl_wire::{PriorState, RawChange};

/// Undoes the changes of the last run. `root` is the root directory of the process that made it.
pub(crate) fn undo(memory: &SharedMemory, root: &Path) {
    let changes = memory.changes();
    if changes.is_empty() {
        return;
    }
    let root = match File::open(root) {
        Ok(root) => root,
        Err(error) => return note(Path::new("/"), &error),
    };
    for (change, bytes) in changes.iter().rev() {
        let Some(change) = PathChange::of(*change, bytes) else { continue };
        if let Err(error) = change.undo(&root) {
            note(change.path, &error);
        }
    }
}

fn note(path: &Path, error: &io::Error) {
    notes::add(format!("{} cannot be restored as it was before a run: {error}", path.display()));
}

/// A change of a path.
struct PathChange<'a> {
    kind: PriorState,
    head: RawChange,
    path: &'a Path,
    /// The target of a link, or the path that a file had before.
    other: &'a Path,
    contents: &'a [u8],
}

/// A path whose directory is open, so that links in it are resolved below the right root.
struct Place {
    _directory: File,
    path: PathBuf,
}

impl Place {
    fn of(root: &File, path: &Path) -> io::Result<Self> {
        let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(io::Error::other("it is the root directory"));
        };
        let directory = probe::open_below(root, directory)?;
        let path = Path::new("/proc/self/fd").join(directory.as_raw_fd().to_string()).join(name);
        Ok(Self { _directory: directory, path })
    }
}

impl<'a> PathChange<'a> {
    fn of(head: RawChange, bytes: &'a [u8]) -> Option<Self> {
        let (path, rest) = bytes.split_at_checked(usize::try_from(head.path_len).ok()?)?;
        let (other, rest) = rest.split_at_checked(usize::try_from(head.other_len).ok()?)?;
        let contents = rest.get(..usize::try_from(head.contents_len).ok()?)?;
        let path_of = |bytes: &'a [u8]| Path::new(OsStr::from_bytes(bytes));
        let kind = PriorState::from_number(head.kind)?;
        Some(Self { kind, head, path: path_of(path), other: path_of(other), contents })
    }

    fn undo(&self, root: &File) -> io::Result<()> {
        let place = match Place::of(root, self.path) {
            // It is gone with its directory.
            Err(error) if error.kind() == io::ErrorKind::NotFound && self.kind == PriorState::Absent => {
                return Ok(());
            }
            place => place?,
        };
        let at = place.path.as_path();
        match self.kind {
            PriorState::Absent => remove(at),
            PriorState::File => {
                if fs::symlink_metadata(at).is_ok_and(|now| !now.is_file()) {
                    remove(at)?;
                }
                self.write(at)
            }
            PriorState::Attributes => self.restore_attributes(at),
            PriorState::Link => {
                remove(at)?;
                symlink(self.other, at)
            }
            PriorState::Directory => {
                if fs::symlink_metadata(at).is_ok_and(|now| !now.is_dir()) {
                    remove(at)?;
                }
                match fs::create_dir(at) {
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                    made => made?,
                }
                self.restore_attributes(at)
            }
            PriorState::Renamed => {
                let before = Place::of(root, self.other)?;
                match fs::rename(at, &before.path) {
                    // The call failed, or the file was removed by a process that is not controlled.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                    renamed => renamed,
                }
            }
        }
    }

    /// Writes the contents in place, so that the file keeps its other names.
    fn write(&self, at: &Path) -> io::Result<()> {
        let open = || File::options().write(true).create(true).truncate(true).open(at);
        let mut file = match open() {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                // The program may have taken the permission away.
                fs::set_permissions(at, Permissions::from_mode(0o600))?;
                open()?
            }
            file => file?,
        };
        file.write_all(self.contents)?;
        self.restore_attributes(at)
    }

    fn restore_attributes(&self, at: &Path) -> io::Result<()> {
        let [owner, group] = self.head.owner;
        let now = fs::symlink_metadata(at)?;
        // Only the owner may set them, which the program usually did not.
        if (now.uid(), now.gid()) != (owner, group) {
            lchown(at, Some(owner), Some(group))?;
        }
        if now.mode() & 0o7777 != self.head.mode {
            fs::set_permissions(at, Permissions::from_mode(self.head.mode))?;
        }
        let times =
            FileTimes::new().set_accessed(time(self.head.accessed)).set_modified(time(self.head.modified));
        // A file without permission to read keeps its new times.
        File::open(at).and_then(|file| file.set_times(times)).or(Ok(()))
    }
}

fn time([seconds, nanos]: [i64; 2]) -> SystemTime {
    let nanos = Duration::from_nanos(nanos.unsigned_abs());
    let whole = Duration::from_secs(seconds.unsigned_abs());
    if seconds < 0 { UNIX_EPOCH - whole + nanos } else { UNIX_EPOCH + whole + nanos }
}

/// Removes whatever is there.
fn remove(at: &Path) -> io::Result<()> {
    let removed = match fs::symlink_metadata(at) {
        Ok(now) if now.is_dir() => fs::remove_dir_all(at),
        Ok(_) => fs::remove_file(at),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}
