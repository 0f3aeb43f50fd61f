//! The runtime as a file: it is part of this binary and is laid down where programs can load it, and beside it
//! the header with which they can give hints.

use crate::Error;
use std::{
    env, fs, io,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::{Mutex, OnceLock, PoisonError},
};
use unsnarl_wire::RUNTIME_LIBRARY;

const LIBRARY: &[u8] = include_bytes!(env!("UNSNARL_RUNTIME"));

/// For `#include <unsnarl.h>`.
const HEADER: &[u8] = include_bytes!("../../../include/unsnarl.h");

/// The directory of headers in the runtime's directory.
pub const HEADERS: &str = "include";

/// The directory that holds the runtime: the user's cache, by the runtime's contents, so that versions live
/// side by side and programs linked with one keep finding it.
///
/// # Errors
/// If it cannot be written.
pub fn runtime_directory() -> Result<PathBuf, Error> {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = DIRECTORY.get() {
        return Ok(known.clone());
    }
    let version = fingerprint(LIBRARY.iter().chain(HEADER));
    let directory = cache().join("unsnarl").join(format!("{version:016x}"));
    write(&directory.join(RUNTIME_LIBRARY), LIBRARY)
        .and_then(|()| write(&directory.join(HEADERS).join("unsnarl.h"), HEADER))
        .map_err(|cause| Error::System {
            action: "cannot write the runtime to the cache directory",
            cause,
        })?;
    Ok(DIRECTORY.get_or_init(|| directory).clone())
}

/// The runtime's path.
pub(crate) fn runtime() -> Result<PathBuf, Error> {
    runtime_directory().map(|directory| directory.join(RUNTIME_LIBRARY))
}

fn cache() -> PathBuf {
    let home =
        || env::var_os("HOME").filter(|home| !home.is_empty()).map(|home| PathBuf::from(home).join(".cache"));
    env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
        .or_else(home)
        .unwrap_or_else(|| {
            let user = fs::metadata("/proc/self").map_or(0, |me| me.uid());
            env::temp_dir().join(format!("unsnarl-{user}"))
        })
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
