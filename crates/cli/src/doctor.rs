//! `unsnarl doctor`: checks what this machine and a program support.

use crate::{output, verdict::Verdict};
use anyhow::Result;
use std::{ffi::OsString, fs, path::Path, process::Command};
use unsnarl_exec::{Executor, Settings};
use unsnarl_model::{Plan, Program};

/// Check what this machine and a program support
#[derive(clap::Args)]
pub(crate) struct Doctor {
    /// A program to check
    program: Option<OsString>,
}

/// Severity of a finding.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Severity {
    Ok,
    /// Everything works, but a fallback is used.
    Fallback,
    /// Something does not work.
    Problem,
}

/// A finding: its subject, its severity, and a message.
struct Finding {
    subject: &'static str,
    severity: Severity,
    message: String,
}

impl Finding {
    fn new(subject: &'static str, is_ok: bool, message: impl Into<String>) -> Self {
        Self {
            subject,
            severity: if is_ok { Severity::Ok } else { Severity::Problem },
            message: message.into(),
        }
    }

    /// Creates a finding for a fallback.
    fn differs(subject: &'static str, message: impl Into<String>) -> Self {
        Self { subject, severity: Severity::Fallback, message: message.into() }
    }

    fn print(&self) {
        let Self { subject, severity, message } = self;
        let mark = match severity {
            Severity::Ok => "ok      ",
            Severity::Fallback => "note    ",
            Severity::Problem => "PROBLEM ",
        };
        output::print(&format!("{mark} {subject:<11} {message}\n"));
    }
}

/// Prints the only finding if the limit on data leaves no memory for the other checks.
pub(crate) fn print_data_limit(error: &unsnarl_exec::Error) {
    Finding::new("memory", false, error.to_string()).print();
}

impl Doctor {
    pub(crate) fn run(self) -> Result<Verdict> {
        let mut findings = vec![
            kernel(),
            processor(),
            addresses(),
            libraries(),
            runtime(),
            controlled_run(),
            races(),
            compiler(),
        ];
        findings.extend(restrictions());
        findings.extend(self.program.as_ref().map(inspect_program).into_iter().flatten());
        let mut usable = true;
        for finding in findings {
            finding.print();
            let Finding { subject, severity, .. } = finding;
            // Only some programs need these.
            usable &= severity != Severity::Problem || ["compiler", "libraries", "races"].contains(&subject);
        }
        Ok(if usable { Verdict::Fine } else { Verdict::Unusable })
    }
}

/// Returns the kernel's release name and its first two numbers.
fn release() -> (String, (u32, u32)) {
    let release = unsnarl_exec::kernel_release();
    let mut numbers = release.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    (release, version)
}

/// Returns what a container, a sandbox or a limit forbids, and the consequences; empty on most machines. Each
/// restriction is one finding.
fn restrictions() -> Vec<Finding> {
    let mut found = Vec::new();
    if let Err(error) = unsnarl_exec::check_threads() {
        found.push(Finding::new("threads", false, error.to_string()));
    }
    if !unsnarl_exec::has_seccomp() {
        let message =
            "seccomp is forbidden here: each run of a search is a process of its own, which takes longer";
        found.push(Finding::differs("rewinding", message));
    }
    if !unsnarl_exec::has_process_handles() {
        let message =
            "pidfd_open is forbidden here: the end of each run is detected up to a millisecond late";
        found.push(Finding::differs("waiting", message));
    }
    if !unsnarl_exec::has_kill() {
        let message = "kill is forbidden here: processes are ended through their descriptors, one by one";
        found.push(Finding::differs("signals", message));
    }
    if !Path::new("/proc/self/maps").exists() {
        let message =
            "/proc is not mounted: searches and simplify make every run from the start, which takes longer";
        found.push(Finding::differs("proc", message));
    }
    // Fallbacks report themselves as notes.
    found.extend(unsnarl_exec::take_notes().into_iter().map(|note| Finding::differs("fallback", note)));
    found
}

/// Checks whether blocking calls inside libraries can be observed.
fn libraries() -> Finding {
    let is_ok = unsnarl_exec::has_syscall_user_dispatch();
    let message = if is_ok {
        "waits inside the OpenMP runtime and the C library can be controlled (syscall user dispatch)"
    } else if release().1 >= (5, 11) {
        "waits inside the OpenMP runtime and the C library need syscall user dispatch, which is forbidden here"
    } else {
        "waits inside the OpenMP runtime and the C library need Linux 5.11"
    };
    Finding::new("libraries", is_ok, message)
}

/// Checks whether there is room for the race detector's shadow memory.
fn races() -> Finding {
    let overcommit = fs::read_to_string("/proc/sys/vm/overcommit_memory").unwrap_or_default();
    let limited = unsnarl_exec::address_space_limit().is_some();
    let (is_ok, message) = match overcommit.trim() {
        "2" => (false, "vm.overcommit_memory is 2: data race detection is off (--points sync works)"),
        _ if limited => (false, "`ulimit -v` is set: data race detection is off (--points sync works)"),
        _ if unsnarl_exec::data_limit().is_some() => {
            (false, "`ulimit -d` is set: data race detection is off (--points sync works)")
        }
        _ => (true, "address space for the race detector can be reserved"),
    };
    Finding::new("races", is_ok, message)
}

fn kernel() -> Finding {
    let (release, version) = release();
    let is_ok = version >= (5, 9);
    let message =
        if is_ok { format!("Linux {release}") } else { format!("Linux {release}: 5.9 or later is needed") };
    Finding::new("kernel", is_ok, message)
}

/// Checks how programs get the same addresses in every run.
fn addresses() -> Finding {
    match unsnarl_exec::layout() {
        unsnarl_exec::Layout::Kernel => {
            Finding::new("addresses", true, "address randomisation can be switched off")
        }
        unsnarl_exec::Layout::Own => Finding::differs(
            "addresses",
            "address randomisation cannot be switched off here: programs are loaded at fixed addresses instead, except under gdb",
        ),
    }
}

fn processor() -> Finding {
    let is_ok = unsnarl_exec::has_fsgsbase();
    let message = if is_ok {
        "can switch between fibers quickly (fsgsbase)"
    } else {
        "it lacks fsgsbase (Ivy Bridge or later, and not hidden by a virtual machine)"
    };
    Finding::new("processor", is_ok, message)
}

fn runtime() -> Finding {
    match unsnarl_exec::runtime_directory() {
        Ok(directory) => Finding::new("runtime", true, directory.display().to_string()),
        Err(error) => Finding::new("runtime", false, error.to_string()),
    }
}

/// Runs a program of the system under control.
fn controlled_run() -> Finding {
    let run = || -> Result<u64> {
        unsnarl_exec::raise_descriptor_limit()?;
        // PATH may lead nowhere.
        let path =
            unsnarl_exec::find("true".as_ref()).or_else(|_| unsnarl_exec::find("/bin/true".as_ref()))?;
        let program = Program {
            path: path.to_string_lossy().into_owned(),
            args: vec![b"true".to_vec()],
            cwd: "/".into(),
            ..Program::default()
        };
        Ok(Executor::new(program, Settings::default())?.run(&Plan::default())?.events())
    };
    match run() {
        Ok(events) => Finding::new("control", true, format!("`true` ran under control ({events} events)")),
        Err(error) => Finding::new("control", false, format!("{error:#}")),
    }
}

fn compiler() -> Finding {
    match Command::new("gcc").arg("--version").output() {
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stdout);
            Finding::new("compiler", true, text.lines().next().unwrap_or("gcc"))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let message = "no gcc: `unsnarl cc` needs one (apt-get install gcc g++), or set UNSNARL_CC";
            Finding::new("compiler", false, message)
        }
        Err(error) => Finding::new("compiler", false, format!("gcc cannot be started: {error}")),
    }
}

fn inspect_program(name: &OsString) -> Vec<Finding> {
    let checked =
        unsnarl_exec::find(name).and_then(|path| unsnarl_exec::check(&path).map(|binary| (path, binary)));
    let (path, binary) = match checked {
        Ok(found) => found,
        Err(error) => return vec![Finding::new("program", false, error.to_string())],
    };
    let accesses = if binary.instrumented {
        "instrumented: plain accesses can be schedule points"
    } else {
        "not instrumented: only synchronisation is seen (build with `unsnarl cc` for accesses and atomics)"
    };
    let lines = if binary.debug_info {
        "has line numbers"
    } else {
        "no debug information: functions and offsets only (build with -g)"
    };
    let mut findings = vec![
        Finding::new("program", true, format!("{} can be controlled", Path::new(&path).display())),
        Finding::new("accesses", true, accesses),
        Finding::new("lines", true, lines),
    ];
    if binary.contains_asan {
        let message = "contains AddressSanitizer: leak detection and data race detection are off";
        findings.push(Finding::differs("sanitizer", message));
    }
    if binary.needed.iter().any(|library| library.starts_with("libgomp.so")) {
        let message = "critical sections, locks, barriers and tasks are controlled; each system call costs microseconds";
        findings.push(Finding::new("OpenMP", true, message));
    }
    for (subject, functions, message) in USES {
        let used: Vec<&str> = functions
            .iter()
            .copied()
            .filter(|function| binary.imports.iter().any(|i| i == function))
            .collect();
        if !used.is_empty() {
            findings.push(Finding::new(subject, true, format!("{message}: {}", used.join(", "))));
        }
    }
    findings
}

/// Features that a program's imports reveal, and how unsnarl treats them; `docs/limits.md` has the details.
const USES: [(&str, &[&str], &str); 6] = [
    (
        "processes",
        &["fork", "vfork", "execve", "execvp", "execv", "system", "popen", "posix_spawn", "posix_spawnp"],
        "starts other processes, see \"Other processes\" in docs/limits.md",
    ),
    (
        "outside",
        &[
            "accept",
            "accept4",
            "connect",
            "recv",
            "recvfrom",
            "recvmsg",
            "poll",
            "ppoll",
            "select",
            "epoll_wait",
        ],
        "communicates with other processes, see docs/limits.md for what is recorded",
    ),
    (
        "signals",
        &[
            "pthread_kill",
            "sigwait",
            "sigwaitinfo",
            "sigtimedwait",
            "sigsuspend",
            "pause",
            "signalfd",
            "timer_create",
            "timerfd_create",
            "setitimer",
            "alarm",
        ],
        "signals and timers are part of the schedule, and those from outside are recorded; see docs/limits.md",
    ),
    ("plugins", &["dlopen", "dlmopen"], "loads libraries while it runs, which are controlled from then on"),
    (
        "shared",
        &["shm_open", "shmget", "mq_open", "semop"],
        "shares memory or queues with other processes, which is not modelled",
    ),
    (
        "unmodelled",
        &[
            "io_uring_setup",
            "io_uring_queue_init",
            "getcontext",
            "swapcontext",
            "aio_read",
            "aio_write",
            "lio_listio",
            "mq_notify",
            "getaddrinfo_a",
        ],
        "not modelled, a run may hang or not replay",
    ),
];
