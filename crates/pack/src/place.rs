//! Unpacks a pack into a directory, and relocates its trace to that directory.

use crate::{Error, Pack, Role, loader};
use std::{
    collections::HashMap,
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};
use unsnarl_model::Trace;
use unsnarl_symbols::{build_id, is_system};

/// An unpacked pack that can be run.
#[derive(Clone, Debug)]
pub struct UnpackedPack {
    /// The trace, with the paths of this machine.
    pub trace: Trace,
    /// The included proof.
    pub proof: Option<PathBuf>,
    /// True if the pack's own libraries are used, because this machine's are missing or differ.
    pub own_libraries: bool,
}

/// Unpacks a pack into a directory of its own. The program always comes from the pack. The libraries are this
/// machine's if they are identical and all system libraries; otherwise all of them are the pack's, with its
/// loader.
///
/// `runtime` is unsnarl's own library on this machine.
///
/// # Errors
/// Returns an error if the pack is incomplete or the directory cannot be written.
pub fn unpack(pack: &Pack, directory: &Path, runtime: &Path) -> Result<UnpackedPack, Error> {
    let mut trace = pack.trace()?;
    let own_libraries = !same_libraries(pack, &trace);
    let inside = |name: &str| directory.join(name);
    let text = |path: PathBuf| path.to_string_lossy().into_owned();
    let mut moved: HashMap<String, String> = HashMap::new();
    let mut proof = None;
    for entry in &pack.entries {
        let path = inside(&entry.name);
        match entry.role {
            Role::Program => {
                let patched = if own_libraries { own_loader(pack, directory, &entry.bytes) } else { None };
                write_file(&path, patched.as_deref().unwrap_or(&entry.bytes), true)?;
                moved.insert(entry.origin.clone(), text(path));
            }
            Role::Library if !own_libraries => {}
            _ => {
                write_file(&path, &entry.bytes, entry.executable)?;
                match entry.role {
                    Role::Library => drop(moved.insert(entry.origin.clone(), text(path))),
                    Role::Proof => proof = Some(path),
                    _ => {}
                }
            }
        }
    }
    let cwd = inside("cwd");
    fs::create_dir_all(&cwd).map_err(|reason| Error::Write { path: cwd.clone(), reason })?;
    let program = moved.get(&trace.program.path).cloned();
    let program = program.ok_or_else(|| Error::Damaged("the pack lacks the trace's program".into()))?;
    if let Some(name) = runtime.file_name() {
        let ours = trace.modules.iter().filter(|module| Path::new(&module.path).file_name() == Some(name));
        moved.extend(ours.map(|module| (module.path.clone(), text(runtime.to_path_buf()))));
    }
    relocate(&mut trace, &moved);
    // Any runtime is accepted here: it checks itself whether it fits.
    for module in trace.modules.iter_mut().filter(|module| Path::new(&module.path) == runtime) {
        module.build_id = build_id(runtime);
    }
    trace.program.path = program;
    trace.program.cwd = text(cwd);
    if own_libraries {
        library_path(&mut trace.program.env, &text(inside("lib")));
    }
    Ok(UnpackedPack { trace, proof, own_libraries })
}

/// Returns whether this machine has the same libraries at system paths: a library that was found beside the
/// program is not found beside the pack's.
fn same_libraries(pack: &Pack, trace: &Trace) -> bool {
    pack.entries.iter().filter(|entry| entry.role == Role::Library).all(|entry| {
        let path = Path::new(&entry.origin);
        if !is_system(&entry.origin) {
            return false;
        }
        let known = trace.modules.iter().find(|module| module.path == entry.origin);
        match known.map(|module| &module.build_id).filter(|id| !id.is_empty()) {
            Some(id) => build_id(path) == *id,
            None => fs::read(path).is_ok_and(|bytes| bytes == entry.bytes),
        }
    })
}

/// Returns the program with the pack's loader instead of its own, if the pack has one.
fn own_loader(pack: &Pack, directory: &Path, program: &[u8]) -> Option<Vec<u8>> {
    let entry = pack.entries.iter().find(|entry| {
        let name = Path::new(&entry.origin).file_name().unwrap_or_default().to_string_lossy();
        entry.role == Role::Library && name.starts_with("ld-linux")
    })?;
    loader::with_loader(program, directory.join(&entry.name).to_str()?)
}

/// Makes the loader look for libraries in this directory first.
fn library_path(env: &mut Vec<Vec<u8>>, directory: &str) {
    const NAME: &[u8] = b"LD_LIBRARY_PATH=";
    match env.iter_mut().find(|entry| entry.starts_with(NAME)) {
        Some(entry) => {
            let before = entry.split_off(NAME.len());
            entry.extend_from_slice(directory.as_bytes());
            entry.push(b':');
            entry.extend(before);
        }
        None => env.push([NAME, directory.as_bytes()].concat()),
    }
}

/// Replaces the paths of the machine that recorded the trace.
fn relocate(trace: &mut Trace, moved: &HashMap<String, String>) {
    let modules = trace.modules.iter_mut().map(|module| &mut module.path);
    let plan = &mut trace.plan;
    for path in modules.chain(&mut plan.places.modules).chain(&mut plan.prefix.modules) {
        if let Some(new) = moved.get(path) {
            path.clone_from(new);
        }
    }
}

/// Writes a file unless it already has these contents.
fn write_file(path: &Path, bytes: &[u8], executable: bool) -> Result<(), Error> {
    if fs::read(path).is_ok_and(|there| there == bytes) {
        return Ok(());
    }
    let write = || {
        path.parent().map_or(Ok(()), fs::create_dir_all)?;
        // Renamed into place, because another unsnarl may be running the old file.
        let mut draft = path.as_os_str().to_owned();
        draft.push(format!(".{}.draft", std::process::id()));
        let draft = PathBuf::from(draft);
        fs::write(&draft, bytes)?;
        fs::set_permissions(&draft, fs::Permissions::from_mode(if executable { 0o755 } else { 0o644 }))?;
        fs::rename(&draft, path)
    };
    write().map_err(|reason| Error::Write { path: path.into(), reason })
}
