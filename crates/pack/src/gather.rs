//! Gathers the files that a replay needs.

use crate::{Error, Pack, PackEntry, Role};
use std::{
    collections::BTreeSet,
    fs,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};
use unsnarl_model::Trace;
use unsnarl_symbols::Symbols;

/// The contents of a pack beyond what the trace names.
#[derive(Clone, Debug, Default)]
pub struct PackOptions {
    /// Files and directories that the program reads.
    pub inputs: Vec<PathBuf>,
    /// The proof of the trace.
    pub proof: Option<PathBuf>,
    /// Drop the environment except for variables that locate programs and determine the locale.
    pub bare: bool,
    /// The name of unsnarl's own library, which every installation provides itself.
    pub runtime: &'static str,
}

/// Variables kept in a bare environment.
const KEPT_VARIABLES: [&[u8]; 4] = [b"PATH=", b"LANG=", b"LC_", b"TZ="];

/// Gathers everything that the replay of a trace needs: the program and its libraries as they are now.
///
/// # Errors If a file cannot be read, or is at a place that a pack cannot reproduce.
pub fn gather(trace: &Trace, options: &PackOptions) -> Result<Pack, Error> {
    let mut trace = trace.clone();
    if options.bare {
        trace.program.env.retain(|entry| KEPT_VARIABLES.iter().any(|variable| entry.starts_with(variable)));
    }
    let bytes = unsnarl_trace::encode(&trace);
    let mut files = PackFiles { entries: Vec::new(), names: BTreeSet::new() };
    files.entry(Role::Trace, "trace.snarl".into(), "", false, bytes);
    if let Some(proof) = &options.proof {
        files.read(Role::Proof, "trace.proof".into(), proof)?;
    }
    let program = Path::new(&trace.program.path);
    files.read(Role::Program, format!("program/{}", file_name(program)), program)?;
    for module in trace.modules.iter().filter(|module| module.path != trace.program.path) {
        let path = Path::new(&module.path);
        // The vDSO and anonymous code have no file.
        if path.is_absolute() && file_name(path) != options.runtime {
            files.read(Role::Library, format!("lib/{}", file_name(path)), path)?;
        }
    }
    for input in inputs(&trace, options) {
        files.input(&input, &trace.program.cwd)?;
    }
    for source in sources(&trace) {
        // A source that cannot be read could not be shown here either.
        let _ = files.read(Role::Source, format!("src{source}"), Path::new(&source));
    }
    Ok(Pack { entries: files.entries })
}

struct PackFiles {
    entries: Vec<PackEntry>,
    names: BTreeSet<String>,
}

impl PackFiles {
    fn entry(&mut self, role: Role, name: String, origin: &str, executable: bool, bytes: Vec<u8>) {
        if self.names.insert(name.clone()) {
            self.entries.push(PackEntry { role, name, origin: origin.to_owned(), executable, bytes });
        }
    }

    fn read(&mut self, role: Role, name: String, path: &Path) -> Result<(), Error> {
        let bytes = fs::read(path).map_err(|reason| Error::Read { path: path.into(), reason })?;
        let executable = matches!(role, Role::Program | Role::Library);
        self.entry(role, name, &path.to_string_lossy(), executable, bytes);
        Ok(())
    }

    /// Adds a file or directory, relative to the program's working directory.
    fn input(&mut self, path: &Path, cwd: &str) -> Result<(), Error> {
        let outside = || Error::Outside { path: path.into(), cwd: cwd.to_owned() };
        let inside = path.strip_prefix(cwd).map_err(|_| outside())?;
        let inside = inside.to_str().filter(|inside| !inside.split('/').any(|part| part == ".."));
        let name = format!("cwd/{}", inside.ok_or_else(outside)?);
        if !path.is_dir() {
            return self.read(Role::Input, name, path);
        }
        let failed = |reason| Error::Read { path: path.into(), reason };
        let mut inner: Vec<PathBuf> = fs::read_dir(path)
            .and_then(|list| list.map(|entry| entry.map(|entry| entry.path())).collect())
            .map_err(failed)?;
        inner.sort();
        inner.iter().try_for_each(|path| self.input(path, cwd))
    }
}

/// Returns the files named by the user and by the program's arguments.
fn inputs(trace: &Trace, options: &PackOptions) -> Vec<PathBuf> {
    let cwd = Path::new(&trace.program.cwd);
    let arguments = trace.program.args.iter().skip(1).map(|arg| Path::new(std::ffi::OsStr::from_bytes(arg)));
    // The program would look for an absolute path outside of the pack.
    let named =
        arguments.filter(|path| path.is_relative() && !path.starts_with("..") && cwd.join(path).is_file());
    let named = named.map(|path| cwd.join(path.strip_prefix(".").unwrap_or(path)));
    let requested =
        options.inputs.iter().map(|path| std::path::absolute(path).unwrap_or_else(|_| path.clone()));
    named.chain(requested).collect()
}

/// Returns the user's source files that the trace refers to.
fn sources(trace: &Trace) -> BTreeSet<String> {
    let mut symbols = Symbols::new();
    let calls = trace.outcome.backtraces.iter().flat_map(|backtrace| &backtrace.frames);
    let starts = trace.threads.iter().map(|thread| &thread.start);
    let sites: BTreeSet<_> =
        trace.sites.iter().chain(calls).chain(starts).chain(&trace.outcome.site).collect();
    let frames = sites.into_iter().flat_map(|&site| symbols.lookup(&trace.modules, site));
    let files = frames.filter(|frame| !frame.system).filter_map(|frame| frame.file);
    files.filter(|file| file.starts_with('/') && !file.split('/').any(|part| part == "..")).collect()
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
