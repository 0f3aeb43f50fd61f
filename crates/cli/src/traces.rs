//! The directory of traces: `./.unsnarl/`, with the newest also as `latest`.

use crate::{explore::strategy_name, output, verdict::NotSaved};
use anyhow::{Context, Result};
use std::{
    fs, io,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};
use unsnarl_model::{Policy, Trace};
use unsnarl_pack::{Pack, UnpackedPack};
use unsnarl_symbols::{Symbols, failure_place, hex};
use unsnarl_trace::SaveError;

const DIRECTORY: &str = ".unsnarl";
const ENDING: &str = "snarl";

/// The advice if the directory of traces cannot be written.
#[derive(Clone, Copy)]
pub(crate) enum WriteAdvice {
    /// The command has an option for the path.
    NameFile,
    /// The command always uses the directory.
    ChangeDirectory,
}

impl WriteAdvice {
    const fn text(self) -> &'static str {
        match self {
            Self::NameFile => "use -o FILE, or another directory",
            Self::ChangeDirectory => "run it in another directory",
        }
    }
}

/// Creates the directory of traces before a run: a program that lists the current directory must find the same in its
/// recording and in a replay. If it cannot be created, [`check`] or saving the trace reports it.
pub(crate) fn prepare() {
    let _ = fs::create_dir_all(DIRECTORY);
}

/// Checks before the first run that a trace can be saved at the requested path, or in the directory of traces.
pub(crate) fn check(requested: Option<&Path>) -> Result<()> {
    match requested {
        Some(path) => {
            prepare();
            check_file(path)
        }
        None => check_directory(WriteAdvice::NameFile),
    }
}

/// Checks that this file can be written.
pub(crate) fn check_file(path: &Path) -> Result<()> {
    Ok(unsnarl_trace::check_writable(path)?)
}

/// Checks that traces can be saved in their directory.
pub(crate) fn check_directory(remedy: WriteAdvice) -> Result<()> {
    make_directory(remedy)?;
    let probe = Path::new(DIRECTORY).join("trace").with_extension(ENDING);
    match unsnarl_trace::check_writable(&probe) {
        Err(SaveError::Write { reason, .. }) => Err(reason)
            .with_context(|| format!("cannot write to the directory {DIRECTORY} ({})", remedy.text())),
        other => Ok(other?),
    }
}

fn make_directory(remedy: WriteAdvice) -> Result<()> {
    fs::create_dir_all(DIRECTORY)
        .with_context(|| format!("cannot make the directory {DIRECTORY} ({})", remedy.text()))
}

/// Saves a trace at the requested path, or under the program's name, and returns its path.
pub(crate) fn save(trace: &Trace, requested: Option<&Path>) -> Result<PathBuf> {
    save_as(trace, requested, &program_name(trace))
}

/// Returns the name of a trace's program.
pub(crate) fn program_name(trace: &Trace) -> String {
    name_of_program(&trace.program.path)
}

/// Returns the name of traces of the program at this path.
pub(crate) fn name_of_program(path: &str) -> String {
    let name = Path::new(path).file_name();
    name.map_or_else(|| "trace".into(), |name| name.to_string_lossy().into_owned())
}

/// Saves a trace at the requested path, or under this name, and returns its path. If that fails, a failure is printed
/// with the command that finds it again, because the search may have taken long.
pub(crate) fn save_as(trace: &Trace, requested: Option<&Path>, name: &str) -> Result<PathBuf> {
    let saved = try_save(trace, requested, name);
    if !trace.outcome.is_failure() {
        return saved;
    }
    saved.map_err(|error| {
        eprint!("{}{}", output::outcome(trace), how_to_find_again(trace));
        NotSaved(format!("{error:#}")).into()
    })
}

/// Describes how a failure was found, and the command that finds it again.
pub(crate) fn how_to_find_again(trace: &Trace) -> String {
    let found = match trace.plan.tail {
        Policy::Fair | Policy::Stop => String::new(),
        _ => format!("found    by {}\n", strategy_name(&trace.plan)),
    };
    format!("{found}rerun    {}\n", rerun_command())
}

/// Returns the command line of this process, which makes the same runs again.
pub(crate) fn rerun_command() -> String {
    let arguments = std::env::args_os().map(|argument| output::quoted(argument.as_ref()));
    arguments.collect::<Vec<_>>().join(" ")
}

/// Saves a trace in the directory of traces under an unused name that begins like this. It does not become the latest.
pub(crate) fn save_new(trace: &Trace, name: &str) -> Result<PathBuf> {
    make_directory(WriteAdvice::NameFile)?;
    Ok(unsnarl_trace::save_new(trace, numbered(name))?)
}

/// Saves a trace beside this file, under an unused name.
pub(crate) fn save_beside(trace: &Trace, file: &Path) -> Result<PathBuf> {
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    let paths = (1_u32..).map(|n| file.with_file_name(format!("{stem}-found-{n}.{ENDING}")));
    Ok(unsnarl_trace::save_new(trace, paths)?)
}

/// Saves a trace as [`save_as`] does, and only returns the error if that fails.
pub(crate) fn try_save(trace: &Trace, requested: Option<&Path>, name: &str) -> Result<PathBuf> {
    let path = match requested {
        Some(path) => {
            unsnarl_trace::save(trace, path)?;
            path.to_path_buf()
        }
        None => save_new(trace, name)?,
    };
    remember(&path);
    keep_build(trace);
    Ok(path)
}

/// Returns the requested path, or claims an unused path for this name by an empty file, which the caller replaces.
pub(crate) fn place(requested: Option<&Path>, name: &str) -> Result<PathBuf> {
    if let Some(path) = requested {
        return Ok(path.to_path_buf());
    }
    make_directory(WriteAdvice::NameFile)?;
    for path in numbered(name) {
        match fs::File::create_new(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            other => {
                other.with_context(|| format!("cannot write {}", path.display()))?;
                return Ok(path);
            }
        }
    }
    unreachable!("numbers do not end")
}

/// Returns the directory that keeps failed programs by their build ids.
pub(crate) fn builds() -> PathBuf {
    Path::new(DIRECTORY).join("builds")
}

/// Keeps the program of a failure, so that sites still resolve after it was fixed and rebuilt. Errors are ignored: this
/// is only a convenience.
fn keep_build(trace: &Trace) {
    const MAX: u64 = 256 << 20;
    let Some(program) = trace.modules.first().filter(|_| trace.outcome.is_failure()) else { return };
    let small = || fs::metadata(&program.path).is_ok_and(|file| file.len() < MAX);
    let archived = builds().join(hex(&program.build_id));
    if program.build_id.is_empty() || archived.exists() || !small() {
        return;
    }
    // A copy that is cut short must not be taken for the program.
    let draft = archived.with_extension(format!("{}.tmp", std::process::id()));
    let copied = fs::create_dir_all(builds()).and_then(|()| fs::copy(&program.path, &draft));
    if copied.and_then(|_| fs::rename(&draft, &archived)).is_err() {
        let _ = fs::remove_file(&draft);
    }
}

/// Returns the path of the requested trace.
pub(crate) fn find(requested: &Path) -> PathBuf {
    let latest = || Path::new(DIRECTORY).join("latest").with_extension(ENDING);
    if requested.as_os_str() == "latest" && !requested.exists() { latest() } else { requested.to_path_buf() }
}

/// Loads the requested trace.
pub(crate) fn load(requested: &Path) -> Result<Trace> {
    let path = find(requested);
    if requested.as_os_str() == "latest" && !path.exists() {
        let error = io::Error::new(
            io::ErrorKind::NotFound,
            "no trace here yet: `unsnarl hunt -- PROG` searches for a failure and saves one",
        );
        return Err(error.into());
    }
    let trace = if unsnarl_pack::is_pack(&path) { unpack(&path)?.trace } else { unsnarl_trace::load(&path)? };
    Ok(with_place(trace))
}

/// Determines the place of a failure whose trace is of a format without it, so that it can be compared with others.
fn with_place(mut trace: Trace) -> Trace {
    if trace.outcome.place.is_empty() {
        trace.outcome.place = failure_place(&trace, &mut Symbols::with_builds(builds()));
    }
    trace
}

/// Unpacks a pack into the user's cache, under the hash of its contents.
pub(crate) fn unpack(path: &Path) -> Result<UnpackedPack> {
    let bytes = fs::read(path).map_err(|reason| unsnarl_pack::Error::Read { path: path.into(), reason })?;
    let pack = Pack::decode(&bytes)?;
    let runtime = unsnarl_exec::runtime_directory()?;
    let packs = runtime.parent().unwrap_or(&runtime).join("packs");
    let name = format!("{:08x}-{:x}", crc32fast::hash(&bytes), bytes.len());
    Ok(unsnarl_pack::unpack(&pack, &packs.join(name), &runtime.join(unsnarl_exec::RUNTIME_LIBRARY))?)
}

/// Returns the names for traces of this program, in the order in which they are used.
fn numbered(name: &str) -> impl Iterator<Item = PathBuf> {
    (1_u32..).map(move |n| Path::new(DIRECTORY).join(format!("{name}-{n}.{ENDING}")))
}

/// Makes this trace `latest`. Errors are ignored: this is only a convenience. There is a `latest` at every moment.
pub(crate) fn remember(path: &Path) {
    let link = Path::new(DIRECTORY).join("latest").with_extension(ENDING);
    let draft = Path::new(DIRECTORY).join(format!(".latest.{}.tmp", std::process::id()));
    let Ok(target) = std::path::absolute(path) else { return };
    if fs::create_dir_all(DIRECTORY).is_ok() && symlink(target, &draft).is_ok() {
        let _ = fs::rename(&draft, &link).or_else(|_| fs::remove_file(&draft));
    }
}
