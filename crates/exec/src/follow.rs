//! Finds the program to control among those that a launcher starts: a script, a test runner, a wrapper.
//!
//! The runtime is preloaded into the launcher and into every program that it starts. There it only asks this process,
//! once per program, whether that program is the wanted one. The wanted program waits before its first instruction. A
//! run under control needs only how it was started: its file, arguments, environment, directory and standard input. So
//! the launcher runs once, and a trace is replayed without the launcher.

use crate::{Error, process};
use std::{
    ffi::{OsStr, OsString},
    fs::{self, File},
    io::{self, ErrorKind, Read, Seek, SeekFrom, Write},
    os::{
        fd::AsRawFd,
        linux::net::SocketAddrExt,
        unix::{
            ffi::OsStringExt,
            fs::FileTypeExt,
            net::{SocketAddr, UnixListener, UnixStream},
            process::CommandExt,
        },
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};
use unsnarl_model::Program;
use unsnarl_symbols::Binary;
use unsnarl_wire::{FOLLOW_VARIABLE, FollowAnswer, RUNTIME_LIBRARY};

/// A launcher whose program was found and is held; killed when dropped.
#[derive(Debug)]
pub struct Launcher {
    child: Child,
    /// The connection at which the found program waits.
    _held: Option<UnixStream>,
}

/// Starts the launcher and waits until it starts the wanted program: the one called `name`, or, without a name, the
/// first that can create threads.
///
/// # Errors
/// If the launcher cannot be started, or ends without having started such a program.
pub fn follow(launcher: &Program, name: Option<&str>) -> Result<(Program, Launcher), Error> {
    let refused = |action| move |cause| Error::System { action, cause };
    let socket = format!("unsnarl-follow-{}-{}", std::process::id(), launcher.path.len());
    let address = SocketAddr::from_abstract_name(&socket).map_err(refused("cannot name a socket"))?;
    let listener = UnixListener::bind_addr(&address).map_err(refused("cannot listen for the program"))?;
    listener.set_nonblocking(true).map_err(refused("cannot listen for the program"))?;
    let child = start(launcher, &socket)?;
    let mut running = Launcher { child, _held: None };
    let image = fs::canonicalize(&launcher.path).unwrap_or_default();
    let mut seen = Vec::new();
    loop {
        // Checked before `accept`: a request that was sent before the launcher ended is still served.
        let ended = running.child.try_wait().map_err(refused("cannot wait for the launcher"))?;
        match listener.accept() {
            Ok((mut stream, _)) => {
                let Some(found) = StartedProgram::read_request(&mut stream) else { continue };
                let is_launcher = found.is(running.child.id(), &image);
                if !is_launcher && found.matches(name) {
                    answer(&mut stream, FollowAnswer::Wait);
                    let program = found.program(&socket).map_err(refused("cannot inspect the program"))?;
                    running._held = Some(stream);
                    return Ok((program, running));
                }
                answer(&mut stream, FollowAnswer::Run);
                seen.push(found.name());
            }
            Err(error) if error.kind() != ErrorKind::WouldBlock => {
                return Err(refused("cannot listen for the program")(error));
            }
            Err(_) => match ended {
                Some(status) => return Err(not_found(name, &status.to_string(), seen)),
                None => process::wait_readable(listener.as_raw_fd(), Duration::from_millis(20)),
            },
        }
    }
}

fn not_found(name: Option<&str>, status: &str, mut seen: Vec<String>) -> Error {
    let expected = match name {
        Some(name) => format!("a program named {name}"),
        None => "a program that creates threads".to_owned(),
    };
    seen.dedup();
    let shown = seen.len().min(12);
    let list =
        if seen.is_empty() { "none that is dynamically linked".to_owned() } else { seen[..shown].join(", ") };
    let more = if seen.len() > shown { ", …" } else { "" };
    Error::Unusable {
        program: "the program to follow".into(),
        reason: format!(
            "the command ended ({status}) without starting {expected}; it started {list}{more}: name the program with \
             --follow=NAME, or run it directly"
        ),
    }
}

/// Starts the launcher in its own process group, with the runtime preloaded into it and its children.
fn start(launcher: &Program, socket: &str) -> Result<Child, Error> {
    let text = |bytes: &Vec<u8>| OsString::from_vec(bytes.clone());
    let mut command = Command::new(&launcher.path);
    command.args(launcher.args.iter().skip(1).map(text)).current_dir(&launcher.cwd);
    process::preload(&mut command, None, &launcher.env)?;
    command.env(FOLLOW_VARIABLE, socket).stdin(Stdio::piped());
    // The launcher's output goes to standard error, because standard output is for the program.
    command.stdout(process::standard_error());
    process::kill_with_parent(command.process_group(0));
    let system = |cause| Error::System { action: "cannot start the command", cause };
    let mut child = match command.spawn() {
        // A script without a `#!` line is run by the shell (ENOEXEC).
        Err(error) if error.raw_os_error() == Some(8) => {
            let mut shell = Command::new("/bin/sh");
            shell.arg(&launcher.path).args(launcher.args.iter().skip(1).map(text)).env_clear();
            shell.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
            shell.current_dir(&launcher.cwd).stdin(Stdio::piped()).stdout(process::standard_error());
            process::kill_with_parent(shell.process_group(0));
            shell.spawn().map_err(system)?
        }
        started => started.map_err(system)?,
    };
    if let Some(mut stdin) = child.stdin.take() {
        let bytes = launcher.stdin.clone();
        // Write errors are ignored: the launcher need not read all of its input.
        std::thread::Builder::new()
            .spawn(move || stdin.write_all(&bytes))
            .map_err(|cause| Error::System { action: "cannot start a thread", cause })?;
    }
    Ok(child)
}

fn answer(stream: &mut UnixStream, answer: FollowAnswer) {
    // An error means that the program has ended and needs no answer.
    let _ = stream.write_all(&[answer as u8]);
}

/// A program that the launcher started.
struct StartedProgram {
    process: u32,
    file: PathBuf,
    args: Vec<Vec<u8>>,
}

impl StartedProgram {
    /// Reads which process asks; `None` if it has ended.
    fn read_request(stream: &mut UnixStream) -> Option<Self> {
        let mut process = [0; 4];
        stream
            .set_nonblocking(false)
            .and_then(|()| stream.set_read_timeout(Some(Duration::from_secs(2))))
            .ok()?;
        stream.read_exact(&mut process).ok()?;
        let process = u32::from_le_bytes(process);
        let file = fs::read_link(proc_file(process, "exe")).ok()?;
        let args = entries(&fs::read(proc_file(process, "cmdline")).ok()?);
        Some(Self { process, file, args })
    }

    /// Returns whether this is the launcher itself: `process`, running `image` or its interpreter.
    fn is(&self, process: u32, image: &Path) -> bool {
        self.process == process && (self.file == image || is_interpreter_of(&self.file, image))
    }

    fn name(&self) -> String {
        let name =
            self.args.first().map(|name| String::from_utf8_lossy(name).into_owned()).unwrap_or_default();
        name.rsplit('/').next().unwrap_or_default().to_owned()
    }

    fn matches(&self, name: Option<&str>) -> bool {
        match name {
            Some(name) => {
                self.name() == name
                    || self.file.file_name() == Some(OsStr::new(name))
                    || self.file == Path::new(name)
            }
            None => Binary::read(&self.file).is_ok_and(|binary| makes_threads(&binary)),
        }
    }

    /// Returns how the program was started.
    fn program(&self, socket: &str) -> io::Result<Program> {
        let text = |path: PathBuf| {
            path.into_os_string().into_string().map_err(|_| io::Error::other("a path is not UTF-8"))
        };
        let own_entry = format!("{FOLLOW_VARIABLE}={socket}").into_bytes();
        let env = entries(&fs::read(proc_file(self.process, "environ"))?);
        let mut env: Vec<Vec<u8>> =
            env.into_iter().filter(|entry| *entry != own_entry).filter_map(without_runtime).collect();
        env.sort();
        Ok(Program {
            path: text(self.file.clone())?,
            args: self.args.clone(),
            env,
            cwd: text(fs::read_link(proc_file(self.process, "cwd"))?)?,
            stdin: standard_input(self.process)?,
        })
    }
}

/// Returns whether the program can create threads, or was compiled with instrumentation.
fn makes_threads(binary: &Binary) -> bool {
    let starts = |name: &String| {
        let name = name.split('@').next().unwrap_or(name);
        matches!(name, "pthread_create" | "thrd_create" | "GOMP_parallel")
            || name.starts_with("_ZNSt6thread15_M_start_thread")
    };
    binary.instrumented || binary.imports.iter().any(starts)
}

/// Returns whether `file` is the interpreter that the script's first line names.
fn is_interpreter_of(file: &Path, script: &Path) -> bool {
    let Ok(text) = fs::read(script) else { return false };
    let Some(line) = text.strip_prefix(b"#!") else {
        // A script without a `#!` line is run by the shell.
        return !text.starts_with(b"\x7fELF") && fs::canonicalize("/bin/sh").is_ok_and(|shell| shell == file);
    };
    let line = line.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line).into_owned();
    let mut words = line.split_whitespace();
    let named = words.next().unwrap_or_default();
    // `env` finds the interpreter and executes it: both count as the launcher.
    let by_env = named.ends_with("/env").then(|| words.find(|word| !word.starts_with('-'))).flatten();
    let found = by_env.and_then(|name| crate::find(OsStr::new(name)).ok());
    [Some(PathBuf::from(named)), found]
        .into_iter()
        .flatten()
        .any(|path| fs::canonicalize(path).is_ok_and(|path| path == file))
}

/// Returns an environment entry without the runtime in it; `None` if the entry exists only because of the runtime.
fn without_runtime(entry: Vec<u8>) -> Option<Vec<u8>> {
    let Some(list) = entry.strip_prefix(b"LD_PRELOAD=") else { return Some(entry) };
    let rest: Vec<&[u8]> =
        list.split(|&byte| byte == b':').filter(|name| !name.ends_with(RUNTIME_LIBRARY.as_bytes())).collect();
    let rest = rest.join(&b':');
    (!rest.is_empty()).then(|| [b"LD_PRELOAD=".as_slice(), &rest].concat())
}

fn proc_file(process: u32, name: &str) -> PathBuf {
    format!("/proc/{process}/{name}").into()
}

/// Splits texts that each end with a zero byte.
fn entries(bytes: &[u8]) -> Vec<Vec<u8>> {
    let bytes = bytes.strip_suffix(b"\0").unwrap_or(bytes);
    if bytes.is_empty() { Vec::new() } else { bytes.split(|&byte| byte == 0).map(<[u8]>::to_vec).collect() }
}

/// Returns the rest of the process's standard input; nothing if that is a terminal.
fn standard_input(process: u32) -> io::Result<Vec<u8>> {
    let path = proc_file(process, "fd/0");
    let Ok(metadata) = fs::metadata(&path) else { return Ok(Vec::new()) };
    if metadata.file_type().is_char_device() || metadata.file_type().is_socket() {
        return Ok(Vec::new());
    }
    let mut file = File::open(&path)?;
    if metadata.is_file() {
        // Opening the file again starts at offset 0, so the part that was already read is skipped.
        let info = fs::read_to_string(proc_file(process, "fdinfo/0"))?;
        let at =
            info.lines().find_map(|line| line.strip_prefix("pos:")).and_then(|at| at.trim().parse().ok());
        file.seek(SeekFrom::Start(at.unwrap_or(0)))?;
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

impl Drop for Launcher {
    fn drop(&mut self) {
        // SIGTERM first, so that the launcher can clean up.
        process::end_group(self.child.id(), false);
        let until = Instant::now() + Duration::from_secs(2);
        while Instant::now() < until && matches!(self.child.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(5));
        }
        process::end_group(self.child.id(), true);
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runtime_is_removed_from_environment() {
        let without =
            |text: &str| without_runtime(text.into()).map(|b| String::from_utf8_lossy(&b).into_owned());
        assert_eq!(without("LD_PRELOAD=/a/libunsnarl_rt.so"), None);
        assert_eq!(without("LD_PRELOAD=/a/libunsnarl_rt.so:/b.so").as_deref(), Some("LD_PRELOAD=/b.so"));
        assert_eq!(without("PATH=/bin").as_deref(), Some("PATH=/bin"));
    }

    #[test]
    fn empty_arguments_are_kept() {
        assert_eq!(entries(b"prog\0\0x\0"), [b"prog".to_vec(), Vec::new(), b"x".to_vec()]);
        assert!(entries(b"").is_empty());
    }
}
