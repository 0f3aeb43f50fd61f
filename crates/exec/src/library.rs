//! Installs the runtime, which is embedded in this binary, as a file that programs can load, with the header for hints
//! beside it.

use crate::{Error, notes, probe};
use std::{
    env, fs, io,
    os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::{Mutex, OnceLock, PoisonError},
};
use unsnarl_model::stable_hash;
use unsnarl_wire::RUNTIME_LIBRARY;

const RUNTIME: &[u8] = include_bytes!(env!("UNSNARL_RUNTIME"));

/// The library that loads a program at fixed addresses if address randomisation cannot be disabled.
const LAYOUT: &[u8] = include_bytes!(env!("UNSNARL_LAYOUT"));

/// The header for `#include <unsnarl.h>`.
const HEADER: &[u8] = include_bytes!("../../../include/unsnarl.h");

/// The directory of headers in the runtime's directory.
pub const HEADERS: &str = "include";

/// Returns the directory that holds the runtime. It is in the user's cache and named after the runtime's contents, so
/// that versions coexist and programs linked with one keep finding it. If the cache cannot be used, it is in a
/// directory for temporary files.
///
/// # Errors
/// Returns an error if no directory can be used.
pub fn runtime_directory() -> Result<PathBuf, Error> {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = DIRECTORY.get() {
        return Ok(known.clone());
    }
    let version = stable_hash(RUNTIME.iter().chain(LAYOUT).chain(HEADER).copied());
    let version = format!("{version:016x}");
    let mut refused: Option<(PathBuf, io::Error)> = None;
    for candidate in cache()
        .into_iter()
        .map(CandidateDirectory::Cache)
        .chain(temporary().map(CandidateDirectory::Temporary))
    {
        match candidate.install_runtime(&version) {
            Ok(directory) => {
                if let Some((cache, cause)) = refused {
                    let (cache, used) = (cache.display(), directory.display());
                    notes::add(format!("the cache directory {cache} cannot be used ({cause}): using {used}"));
                }
                return Ok(DIRECTORY.get_or_init(|| directory).clone());
            }
            Err(cause) => refused = refused.or(Some((candidate.path(), cause))),
        }
    }
    let (cache, cause) = refused.unwrap_or_else(|| (PathBuf::new(), io::ErrorKind::NotFound.into()));
    let next = "set XDG_CACHE_HOME to a directory that can be written and whose files may be executed";
    let cause = io::Error::new(cause.kind(), format!("{}: {cause}; {next}", cache.display()));
    Err(Error::System { action: "cannot write the runtime to the cache directory", cause })
}

/// A candidate directory for the runtime.
enum CandidateDirectory {
    /// The user's cache.
    Cache(PathBuf),
    /// A directory that other users can write to.
    Temporary(PathBuf),
}

impl CandidateDirectory {
    /// Returns the directory that belongs to the user alone.
    fn path(&self) -> PathBuf {
        match self {
            Self::Cache(cache) => cache.clone(),
            Self::Temporary(shared) => shared.join(format!("unsnarl-{}", probe::user())),
        }
    }

    /// Installs the runtime here and returns its directory.
    fn install_runtime(&self, version: &str) -> io::Result<PathBuf> {
        let own = self.path();
        if let Self::Temporary(_) = self {
            create_private_directory(&own)?;
        }
        let directory = own.join("unsnarl").join(version);
        write(&directory.join(RUNTIME_LIBRARY), RUNTIME)?;
        write(&directory.join(HEADERS).join("unsnarl.h"), HEADER)?;
        match probe::file_system(&directory)? {
            (_, true) => Ok(directory),
            (_, false) => Err(io::Error::other("it is mounted noexec")),
        }
    }
}

/// Creates the directory, or checks that an existing one belongs to the user and is not writable by others: files in it
/// are executed.
fn create_private_directory(directory: &Path) -> io::Result<()> {
    match fs::DirBuilder::new().mode(0o700).create(directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let found = fs::symlink_metadata(directory)?;
    if found.is_dir() && found.uid() == probe::user() && found.mode() & 0o022 == 0 {
        Ok(())
    } else {
        Err(io::Error::other(format!("{} can be changed by other users", directory.display())))
    }
}

/// Returns the path of the library that loads a program at fixed addresses. It must be preloaded before all others.
pub(crate) fn layout() -> Result<PathBuf, Error> {
    install_file("libunsnarl_layout.so", LAYOUT)
}

/// Returns the runtime's path.
pub(crate) fn runtime() -> Result<PathBuf, Error> {
    runtime_directory().map(|directory| directory.join(RUNTIME_LIBRARY))
}

/// Returns the user's cache directory, if the environment names one.
fn cache() -> Option<PathBuf> {
    // A relative path would create a cache in every current directory.
    let directory = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    directory("XDG_CACHE_HOME").or_else(|| directory("HOME").map(|home| home.join(".cache")))
}

/// Returns directories for temporary files. Any of them may lack space or forbid executing.
fn temporary() -> impl Iterator<Item = PathBuf> {
    [env::temp_dir(), "/tmp".into(), "/var/tmp".into(), "/dev/shm".into()].into_iter()
}

/// Writes a file into the runtime's directory, for other programs to read, and returns its path.
///
/// # Errors
/// Returns an error if the library cannot be written.
pub fn install_file(name: &str, content: &[u8]) -> Result<PathBuf, Error> {
    let place = runtime_directory()?.join(name);
    let action = "cannot write to the cache directory";
    write(&place, content).map_err(|cause| Error::System { action, cause })?;
    Ok(place)
}

fn write(place: &Path, content: &[u8]) -> io::Result<()> {
    if fs::metadata(place).is_ok_and(|file| file.len() == content.len() as u64) && fs::read(place)? == content
    {
        return Ok(());
    }
    place.parent().map_or(Ok(()), fs::create_dir_all)?;
    // Written under a temporary name and renamed, because another unsnarl may do the same.
    let draft = place.with_extension(format!("{}.draft", std::process::id()));
    fs::write(&draft, content)?;
    fs::set_permissions(&draft, fs::Permissions::from_mode(0o755))?;
    fs::rename(&draft, place)
}
