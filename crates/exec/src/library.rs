//! The runtime as a file: it is part of this binary and is laid down where programs can load it, and beside it
//! the header with which they can give hints.

use crate::{Error, notes, probe};
use std::{
    env, fs, io,
    os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::{Mutex, OnceLock, PoisonError},
};
use unsnarl_wire::RUNTIME_LIBRARY;

const LIBRARY: &[u8] = include_bytes!(env!("UNSNARL_RUNTIME"));

/// Loads a program at fixed addresses where address randomisation cannot be switched off.
const LAYOUT: &[u8] = include_bytes!(env!("UNSNARL_LAYOUT"));

/// For `#include <unsnarl.h>`.
const HEADER: &[u8] = include_bytes!("../../../include/unsnarl.h");

/// The directory of headers in the runtime's directory.
pub const HEADERS: &str = "include";

/// The directory that holds the runtime: the user's cache, by the runtime's contents, so that versions live
/// side by side and programs linked with one keep finding it. If the cache cannot be used, it is a directory for
/// temporary files.
///
/// # Errors
/// If none can be used.
pub fn runtime_directory() -> Result<PathBuf, Error> {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = DIRECTORY.get() {
        return Ok(known.clone());
    }
    let version = fingerprint(LIBRARY.iter().chain(LAYOUT).chain(HEADER));
    let version = format!("{version:016x}");
    let mut refused: Option<(PathBuf, io::Error)> = None;
    for place in cache().into_iter().map(Place::Cache).chain(temporary().map(Place::Temporary)) {
        match place.hold_runtime(&version) {
            Ok(directory) => {
                if let Some((cache, cause)) = refused {
                    let (cache, used) = (cache.display(), directory.display());
                    notes::add(format!("the cache directory {cache} cannot be used ({cause}): using {used}"));
                }
                return Ok(DIRECTORY.get_or_init(|| directory).clone());
            }
            Err(cause) => refused = refused.or(Some((place.path(), cause))),
        }
    }
    let (cache, cause) = refused.unwrap_or_else(|| (PathBuf::new(), io::ErrorKind::NotFound.into()));
    let next = "set XDG_CACHE_HOME to a directory that can be written and whose files may be executed";
    let cause = io::Error::new(cause.kind(), format!("{}: {cause}; {next}", cache.display()));
    Err(Error::System { action: "cannot write the runtime to the cache directory", cause })
}

/// Where the runtime may be laid down.
enum Place {
    /// The user's own.
    Cache(PathBuf),
    /// One that other users write to.
    Temporary(PathBuf),
}

impl Place {
    /// The directory of the user's own.
    fn path(&self) -> PathBuf {
        match self {
            Self::Cache(cache) => cache.clone(),
            Self::Temporary(shared) => shared.join(format!("unsnarl-{}", probe::user())),
        }
    }

    /// Lays the runtime down; its directory.
    fn hold_runtime(&self, version: &str) -> io::Result<PathBuf> {
        let own = self.path();
        if let Self::Temporary(_) = self {
            claim(&own)?;
        }
        let directory = own.join("unsnarl").join(version);
        write(&directory.join(RUNTIME_LIBRARY), LIBRARY)?;
        write(&directory.join(HEADERS).join("unsnarl.h"), HEADER)?;
        match probe::file_system(&directory)? {
            (_, true) => Ok(directory),
            (_, false) => Err(io::Error::other("it is mounted noexec")),
        }
    }
}

/// Makes a directory where others could have made one of the same name: only the user's own will do, for what is in it is executed.
fn claim(directory: &Path) -> io::Result<()> {
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

/// The path of the library that loads a program at fixed addresses. It must be preloaded before all others.
pub(crate) fn layout() -> Result<PathBuf, Error> {
    install_file("libunsnarl_layout.so", LAYOUT)
}

/// The runtime's path.
pub(crate) fn runtime() -> Result<PathBuf, Error> {
    runtime_directory().map(|directory| directory.join(RUNTIME_LIBRARY))
}

/// The user's cache, if the environment names one.
fn cache() -> Option<PathBuf> {
    let home =
        || env::var_os("HOME").filter(|home| !home.is_empty()).map(|home| PathBuf::from(home).join(".cache"));
    env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute()).or_else(home)
}

/// Directories for temporary files, each of which may lack room or forbid executing.
fn temporary() -> impl Iterator<Item = PathBuf> {
    [env::temp_dir(), "/tmp".into(), "/var/tmp".into(), "/dev/shm".into()].into_iter()
}

/// Lays a file down in the runtime's directory, for programs that want to have one; where it is.
///
/// # Errors
/// If it cannot be written.
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
    // Renamed into place: another unsnarl may be doing the same.
    let draft = place.with_extension(format!("{}.draft", std::process::id()));
    fs::write(&draft, content)?;
    fs::set_permissions(&draft, fs::Permissions::from_mode(0o755))?;
    fs::rename(&draft, place)
}

/// FNV-1a: names a version, protects nothing.
fn fingerprint<'a>(bytes: impl Iterator<Item = &'a u8>) -> u64 {
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}
