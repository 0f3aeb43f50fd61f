//! Trace files on disk.

use crate::{DecodeError, EventReader, LoadError, SaveError, check, write};
use std::{
    fs::{self, File},
    io::{self, BufReader, BufWriter, Write},
    path::{Path, PathBuf},
    process,
    sync::atomic::{AtomicU64, Ordering},
};
use unsnarl_model::Trace;

/// Loads a whole trace.
pub fn load(path: &Path) -> Result<Trace, LoadError> {
    let file = open_file(path)?;
    let size = file.metadata().map_err(DecodeError::Io).map(|metadata| metadata.len());
    size.and_then(|size| EventReader::new(BufReader::new(file))?.into_trace(size))
        .map_err(|reason| LoadError::Decode { path: path.into(), reason })
}

/// Opens a trace to read its events chunk by chunk.
pub fn open(path: &Path) -> Result<EventReader<BufReader<File>>, LoadError> {
    EventReader::new(BufReader::new(open_file(path)?))
        .map_err(|reason| LoadError::Decode { path: path.into(), reason })
}

fn open_file(path: &Path) -> Result<File, LoadError> {
    File::open(path).map_err(|reason| LoadError::Open { path: path.into(), reason })
}

/// Saves a trace. An existing file is replaced only after the new one is completely written.
pub fn save(trace: &Trace, path: &Path) -> Result<(), SaveError> {
    check::metadata(trace)
        .and_then(|()| check::events(trace))
        .map_err(|reason| SaveError::Inconsistent { path: path.into(), reason })?;
    if path.file_name().is_none() {
        return Err(SaveError::NotAFile { path: path.into() });
    }
    write_atomically(path, |out| write(trace, out).map(drop))
        .map_err(|reason| SaveError::Write { path: path.into(), reason })
}

/// Saves a trace at the first of these paths, all in one directory, that no file has, and returns it. Several
/// processes that do this at once get different paths, and none of the files is ever incomplete.
pub fn save_new(trace: &Trace, paths: impl IntoIterator<Item = PathBuf>) -> Result<PathBuf, SaveError> {
    let mut paths = paths.into_iter().peekable();
    let first = paths.peek().cloned().unwrap_or_default();
    check::metadata(trace)
        .and_then(|()| check::events(trace))
        .map_err(|reason| SaveError::Inconsistent { path: first.clone(), reason })?;
    let mut written = || -> io::Result<PathBuf> {
        let (draft, file) = TemporaryFile::create(&first)?;
        let mut out = BufWriter::new(file);
        write(trace, &mut out)?;
        out.flush()?;
        draft.publish_as_new(&mut paths)
    };
    written().map_err(|reason| SaveError::Write { path: first.clone(), reason })
}

/// Checks that a trace can be saved at this path. An existing file is left unchanged.
///
/// # Errors If it cannot, with the error that [`save`] would return.
pub fn check_writable(path: &Path) -> Result<(), SaveError> {
    if path.file_name().is_none() {
        return Err(SaveError::NotAFile { path: path.into() });
    }
    let writable = match fs::metadata(path) {
        Ok(there) if there.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        // A pipe is not opened: its reader would see that.
        Ok(there) if !there.is_file() => Ok(()),
        _ => TemporaryFile::create(path).map(drop),
    };
    writable.map_err(|reason| SaveError::Write { path: path.into(), reason })
}

/// Writes a file completely or not at all. An existing special file, like a pipe or `/dev/null`, is written
/// to directly.
///
/// # Errors If it cannot be written; an existing file is then left unchanged.
pub fn write_atomically(
    path: &Path,
    content: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
) -> io::Result<()> {
    let is_special = fs::metadata(path).is_ok_and(|there| !there.is_file());
    let (draft, file) = if is_special {
        (None, File::options().write(true).open(path)?)
    } else {
        let (draft, file) = TemporaryFile::create(path)?;
        (Some(draft), file)
    };
    let mut out = BufWriter::new(file);
    content(&mut out)?;
    out.flush()?;
    draft.map_or(Ok(()), |draft| draft.publish(path))
}

/// Creates a nameless temporary file on the file system of `beside`; it vanishes when it is closed.
///
/// # Errors If it cannot be created.
pub fn scratch(beside: &Path) -> io::Result<File> {
    // The directory of a pipe or of `/dev/null` is no place for files.
    let is_special = fs::metadata(beside).is_ok_and(|there| !there.is_file());
    let elsewhere = std::env::temp_dir().join("unsnarl");
    let path = TemporaryFile::name(if is_special { &elsewhere } else { beside });
    let file = File::options().read(true).write(true).create_new(true).open(&path)?;
    fs::remove_file(&path)?;
    Ok(file)
}

/// An unfinished file, which is removed unless it is published.
struct TemporaryFile {
    path: PathBuf,
    published: bool,
}

impl TemporaryFile {
    /// Creates the draft in the target's directory, because renaming is atomic only within one file system.
    fn create(target: &Path) -> io::Result<(Self, File)> {
        let path = Self::name(target);
        let file = File::create(&path)?;
        Ok((Self { path, published: false }, file))
    }

    /// Returns a unique name.
    fn name(target: &Path) -> PathBuf {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let mut name = std::ffi::OsString::from(".");
        name.push(target.file_name().unwrap_or_default());
        name.push(format!(".{}-{}.tmp", process::id(), COUNT.fetch_add(1, Ordering::Relaxed)));
        target.with_file_name(name)
    }

    fn publish(mut self, target: &Path) -> io::Result<()> {
        fs::rename(&self.path, target)?;
        self.published = true;
        Ok(())
    }

    /// Gives the file the first of these names that is not taken.
    fn publish_as_new(mut self, targets: &mut dyn Iterator<Item = PathBuf>) -> io::Result<PathBuf> {
        for target in targets {
            // Unlike a rename, a link never replaces a file.
            match fs::hard_link(&self.path, &target) {
                Ok(()) => return Ok(target),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                // A file system without links: the name is claimed by an empty file, which is then replaced.
                Err(_) => match File::create_new(&target) {
                    Ok(_) => {
                        fs::rename(&self.path, &target)?;
                        self.published = true;
                        return Ok(target);
                    }
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                    Err(error) => return Err(error),
                },
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        if !self.published {
            // A draft that cannot be removed stays: the earlier error is the one to report.
            let _ = fs::remove_file(&self.path);
        }
    }
}
