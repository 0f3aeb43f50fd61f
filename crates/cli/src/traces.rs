//! Where traces are kept: `./.unsnarl/`, the newest also as `latest`.

use anyhow::{Context, Result};
use std::{
    fs, io,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};
use unsnarl_model::Trace;
use unsnarl_pack::{Pack, UnpackedPack};
use unsnarl_symbols::hex;

const DIRECTORY: &str = ".unsnarl";
const ENDING: &str = "snarl";

/// Makes the directory of traces before a run: a program that lists the current directory should find the same
/// in its recording and in a replay. Where it cannot be made, saving will say so.
pub(crate) fn prepare() {
    let _ = fs::create_dir_all(DIRECTORY);
}

/// Saves a trace where the user said, or under the program's name; its path.
pub(crate) fn save(trace: &Trace, requested: Option<&Path>) -> Result<PathBuf> {
    let name = Path::new(&trace.program.path).file_name().map_or("trace".into(), |n| n.to_string_lossy());
    save_as(trace, requested, &name)
}

/// Saves a trace where the user said, or under this name; its path.
pub(crate) fn save_as(trace: &Trace, requested: Option<&Path>, name: &str) -> Result<PathBuf> {
    let path = place(requested, name)?;
    unsnarl_trace::save(trace, &path)?;
    remember(&path);
    keep_build(trace);
    Ok(path)
}

/// Where the user said, or a path under this name that is not taken.
pub(crate) fn place(requested: Option<&Path>, name: &str) -> Result<PathBuf> {
    requested.map_or_else(|| fresh(name), |path| Ok(path.to_path_buf()))
}

/// Where programs are kept as they were when they failed, by their build ids.
pub(crate) fn builds() -> PathBuf {
    Path::new(DIRECTORY).join("builds")
}

/// Keeps the program of a failure: when it is fixed and built again, what was where is still known. Only a convenience.
fn keep_build(trace: &Trace) {
    const MAX: u64 = 256 << 20;
    let Some(program) = trace.modules.first().filter(|_| trace.outcome.is_failure()) else { return };
    let small = || fs::metadata(&program.path).is_ok_and(|file| file.len() < MAX);
    let archived = builds().join(hex(&program.build_id));
    if program.build_id.is_empty() || archived.exists() || !small() {
        return;
    }
    let _ = fs::create_dir_all(builds()).and_then(|()| fs::copy(&program.path, &archived));
}

/// The trace that the user means.
pub(crate) fn find(requested: &Path) -> PathBuf {
    let latest = || Path::new(DIRECTORY).join("latest").with_extension(ENDING);
    if requested.as_os_str() == "latest" && !requested.exists() { latest() } else { requested.to_path_buf() }
}

/// Loads the trace that the user means.
pub(crate) fn load(requested: &Path) -> Result<Trace> {
    let path = find(requested);
    if requested.as_os_str() == "latest" && !path.exists() {
        let error =
            io::Error::new(io::ErrorKind::NotFound, "no trace here yet: `unsnarl record -- PROG` makes one");
        return Err(error.into());
    }
    if unsnarl_pack::is_pack(&path) {
        return Ok(unpack(&path)?.trace);
    }
    Ok(unsnarl_trace::load(&path)?)
}

/// Lays a pack down in the user's cache, by what is in it: the same pack is always at the same place.
pub(crate) fn unpack(path: &Path) -> Result<UnpackedPack> {
    let bytes = fs::read(path).map_err(|reason| unsnarl_pack::Error::Read { path: path.into(), reason })?;
    let pack = Pack::decode(&bytes)?;
    let runtime = unsnarl_exec::runtime_directory()?;
    let packs = runtime.parent().unwrap_or(&runtime).join("packs");
    let name = format!("{:08x}-{:x}", crc32fast::hash(&bytes), bytes.len());
    Ok(unsnarl_pack::unpack(&pack, &packs.join(name), &runtime.join(unsnarl_exec::RUNTIME_LIBRARY))?)
}

/// A name that is not taken.
fn fresh(name: &str) -> Result<PathBuf> {
    fs::create_dir_all(DIRECTORY).with_context(|| {
        format!("cannot make the directory {DIRECTORY} (use -o FILE, or another directory)")
    })?;
    let path = |n: u32| Path::new(DIRECTORY).join(format!("{name}-{n}.{ENDING}"));
    Ok((1..).map(path).find(|path| !path.exists()).expect("numbers do not end"))
}

/// Makes this the latest. Only a convenience: where it cannot be done, nothing is lost.
pub(crate) fn remember(path: &Path) {
    let link = Path::new(DIRECTORY).join("latest").with_extension(ENDING);
    let Ok(target) = std::path::absolute(path) else { return };
    if fs::create_dir_all(DIRECTORY).is_ok() {
        let _ = fs::remove_file(&link);
        let _ = symlink(target, &link);
    }
}
