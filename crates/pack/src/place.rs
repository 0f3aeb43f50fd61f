//! A pack laid down in a directory, and its trace as of that directory.

use crate::{Error, Pack, Role, loader};
use std::{
    collections::HashMap,
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};
use unsnarl_model::Trace;
use unsnarl_symbols::{build_id, is_system};

/// A pack that can be run.
#[derive(Clone, Debug)]
pub struct UnpackedPack {
    /// Its trace, whose paths are those of this machine.
    pub trace: Trace,
    /// The certificate that came with it.
    pub proof: Option<PathBuf>,
    /// Whether libraries are missing on this machine or other ones, so that the pack's own are used.
    pub own_libraries: bool,
}

/// Lays a pack down in a directory of its own. The program always comes from the pack; the libraries are this machine's if
/// they are the same and all of the system's, and otherwise all of them are the pack's, with its loader.
///
/// `runtime` is unsnarl's own library on this machine.
///
/// # Errors
/// If the pack is incomplete or the directory cannot be written.
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
    // Whichever runtime is here: it says itself whether it fits.
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

/// Whether this machine has the same libraries, where every program finds them: one that was found beside the program
/// is not found beside the pack's.
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

/// The program with the pack's loader instead of its own, if the pack has one.
fn own_loader(pack: &Pack, directory: &Path, program: &[u8]) -> Option<Vec<u8>> {
    let entry = pack.entries.iter().find(|entry| {
        let name = Path::new(&entry.origin).file_name().unwrap_or_default().to_string_lossy();
        entry.role == Role::Library && name.starts_with("ld-linux")
    })?;
    loader::with_loader(program, directory.join(&entry.name).to_str()?)
}

/// Has the loader look for libraries in this directory first.
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

/// Puts other paths into the place of those of the machine that the trace is from.
fn relocate(trace: &mut Trace, moved: &HashMap<String, String>) {
    let modules = trace.modules.iter_mut().map(|module| &mut module.path);
    let plan = &mut trace.plan;
    for path in modules.chain(&mut plan.places.modules).chain(&mut plan.prefix.modules) {
        if let Some(new) = moved.get(path) {
            path.clone_from(new);
        }
    }
}

/// Writes a file unless it is there already.
fn write_file(path: &Path, bytes: &[u8], executable: bool) -> Result<(), Error> {
    if fs::read(path).is_ok_and(|there| there == bytes) {
        return Ok(());
    }
    let write = || {
        path.parent().map_or(Ok(()), fs::create_dir_all)?;
        // Renamed into place: another unsnarl may be running what was there before.
        let mut draft = path.as_os_str().to_owned();
        draft.push(format!(".{}.draft", std::process::id()));
        let draft = PathBuf::from(draft);
        fs::write(&draft, bytes)?;
        fs::set_permissions(&draft, fs::Permissions::from_mode(if executable { 0o755 } else { 0o644 }))?;
        fs::rename(&draft, path)
    };
    write().map_err(|reason| Error::Write { path: path.into(), reason })
}
