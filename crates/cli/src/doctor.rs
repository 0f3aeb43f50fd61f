//! `unsnarl doctor`: what this machine and a program support.

use crate::verdict::Verdict;
use anyhow::Result;
use std::{ffi::OsString, fs, path::Path, process::Command};
use unsnarl_exec::{Executor, Settings};
use unsnarl_model::{Plan, Program};

/// What this machine and a program support
#[derive(clap::Args)]
pub(crate) struct Doctor {
    /// A program to look at
    program: Option<OsString>,
}

/// A finding: what was looked at, whether it is well, and what to say of it.
struct Finding {
    subject: &'static str,
    is_ok: bool,
    message: String,
}

impl Doctor {
    pub(crate) fn run(self) -> Result<Verdict> {
        let mut findings =
            vec![kernel(), processor(), libraries(), runtime(), controlled_run(), races(), compiler()];
        findings.extend(self.program.as_ref().map(inspect_program).into_iter().flatten());
        let mut usable = true;
        for Finding { subject, is_ok, message } in findings {
            println!("{} {subject:<11} {message}", if is_ok { "ok      " } else { "PROBLEM " });
            // What only some programs need.
            usable &= is_ok || ["compiler", "libraries", "races"].contains(&subject);
        }
        Ok(if usable { Verdict::Fine } else { Verdict::Unusable })
    }
}

/// The kernel's name for its version, and the first two numbers of it.
fn release() -> (String, (u32, u32)) {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned();
    let mut numbers = release.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    (release, version)
}

/// Whether threads that wait inside of libraries can be seen.
fn libraries() -> Finding {
    let is_ok = release().1 >= (5, 11);
    let message = if is_ok {
        "waits inside of OpenMP's and the C library can be controlled (syscall user dispatch)"
    } else {
        "waits inside of OpenMP's and the C library need Linux 5.11"
    };
    Finding { subject: "libraries", is_ok, message: message.into() }
}

/// Whether there is room for the race detector's shadow memory.
fn races() -> Finding {
    let overcommit = fs::read_to_string("/proc/sys/vm/overcommit_memory").unwrap_or_default();
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let limit = limits.lines().find_map(|line| line.strip_prefix("Max address space")).unwrap_or_default();
    let limited = !limit.trim_start().starts_with("unlimited");
    let (is_ok, message) = match overcommit.trim() {
        "2" => (false, "vm.overcommit_memory is 2: races cannot be looked for (--points all or sync works)"),
        _ if limited => {
            (false, "`ulimit -v` is set: races cannot be looked for (--points all or sync works)")
        }
        _ => (true, "address space for the race detector can be reserved"),
    };
    Finding { subject: "races", is_ok, message: message.into() }
}

fn kernel() -> Finding {
    let (release, version) = release();
    let is_ok = version >= (5, 9);
    let message =
        if is_ok { format!("Linux {release}") } else { format!("Linux {release}: 5.9 or later is needed") };
    Finding { subject: "kernel", is_ok, message }
}

fn processor() -> Finding {
    let flags = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let is_ok = flags.split_whitespace().any(|flag| flag == "fsgsbase");
    let message = if is_ok {
        "switches fibers by fsgsbase".into()
    } else {
        "it lacks fsgsbase (Ivy Bridge or later, and not hidden by a virtual machine)".into()
    };
    Finding { subject: "processor", is_ok, message }
}

fn runtime() -> Finding {
    match unsnarl_exec::runtime_directory() {
        Ok(directory) => {
            Finding { subject: "runtime", is_ok: true, message: directory.display().to_string() }
        }
        Err(error) => {
            Finding { subject: "runtime", is_ok: false, message: format!("{error} (set XDG_CACHE_HOME)") }
        }
    }
}

/// The proof of the pudding: a program of the system, run under control.
fn controlled_run() -> Finding {
    let run = || -> Result<u64> {
        let path = unsnarl_exec::find("true".as_ref())?;
        let program = Program {
            path: path.to_string_lossy().into_owned(),
            args: vec![b"true".to_vec()],
            cwd: "/".into(),
            ..Program::default()
        };
        Ok(Executor::new(program, Settings::default())?.run(&Plan::default())?.events())
    };
    match run() {
        Ok(events) => Finding {
            subject: "control",
            is_ok: true,
            message: format!("`true` ran under control ({events} events)"),
        },
        Err(error) => Finding { subject: "control", is_ok: false, message: format!("{error:#}") },
    }
}

fn compiler() -> Finding {
    let version = |compiler: &str| {
        let output = Command::new(compiler).arg("--version").output().ok()?;
        Some(String::from_utf8_lossy(&output.stdout).lines().next()?.to_owned())
    };
    match version("gcc") {
        Some(message) => Finding { subject: "compiler", is_ok: true, message },
        None => {
            let message =
                "no gcc: `unsnarl cc` needs one (apt-get install gcc g++), or set UNSNARL_CC".into();
            Finding { subject: "compiler", is_ok: false, message }
        }
    }
}

fn inspect_program(name: &OsString) -> Vec<Finding> {
    let checked =
        unsnarl_exec::find(name).and_then(|path| unsnarl_exec::check(&path).map(|binary| (path, binary)));
    let (path, binary) = match checked {
        Ok(found) => found,
        Err(error) => return vec![Finding { subject: "program", is_ok: false, message: error.to_string() }],
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
        Finding {
            subject: "program",
            is_ok: true,
            message: format!("{} can be controlled", Path::new(&path).display()),
        },
        Finding { subject: "accesses", is_ok: true, message: accesses.into() },
        Finding { subject: "lines", is_ok: true, message: lines.into() },
    ];
    if binary.needed.iter().any(|library| library.starts_with("libgomp.so")) {
        let message = "critical sections, locks, barriers and tasks are controlled; each system call costs microseconds";
        findings.push(Finding { subject: "OpenMP", is_ok: true, message: message.into() });
    }
    for (subject, functions, message) in USES {
        let used: Vec<&str> = functions
            .iter()
            .copied()
            .filter(|function| binary.imports.iter().any(|i| i == function))
            .collect();
        if !used.is_empty() {
            findings.push(Finding {
                subject,
                is_ok: true,
                message: format!("{message}: {}", used.join(", ")),
            });
        }
    }
    findings
}

/// What a program's own imports tell of its ways, and what becomes of that; `docs/limits.md` has the rest.
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
        "talks with others, see docs/limits.md for what is recorded",
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
        "signals and timers are part of the schedule, those from outside are kept; see docs/limits.md",
    ),
    ("plugins", &["dlopen", "dlmopen"], "loads libraries while it runs, which are seen when they are loaded"),
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
