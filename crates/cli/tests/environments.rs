//! Restricted environments: each command works as usual, or works and reports in one line what differs, or is refused
//! with the reason and what to do.
//!
//! The table is printed with `--nocapture` and is part of docs/environments.md; `UNSNARL_UPDATE=1` updates it there.
//! `UNSNARL_ENVIRONMENT=NAME` runs one environment and prints the output of the commands.

mod common;
mod sandbox;

use common::{Place, UNSNARL};
use libc::{ENOSYS, EPERM, RLIM_INFINITY};
use regex::Regex;
use sandbox::{Denial, DenyCondition, Mount, Sandbox, can_mount, is_root};
use std::{
    collections::BTreeMap,
    fs,
    os::unix::{
        fs::{PermissionsExt, chown},
        process::{CommandExt, ExitStatusExt},
    },
    path::Path,
    process::{Command, Stdio},
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

/// A program that loses an update under some schedules.
const PROGRAM: &str = r"
#include <assert.h>
#include <pthread.h>
#ifndef ASSERTS
#undef assert
#define assert(holds) if (!(holds)) return 3
#endif
static int balance = 100;
static void *deposit(void *amount) {
    int before = balance;
    balance = before + *(int *)amount;
    return 0;
}
int main(void) {
    pthread_t first, second;
    int ten = 10, twenty = 20;
    pthread_create(&first, 0, deposit, &ten);
    pthread_create(&second, 0, deposit, &twenty);
    pthread_join(first, 0);
    pthread_join(second, 0);
    assert(balance == 130);
    return 0;
}
";

const RECORD: &str = "record";
const REPLAY: &str = "replay";
const EXPLORE: &str = "explore";
const SIMPLIFY: &str = "simplify";
const PREDICT: &str = "predict";
const SLICE: &str = "slice";
const HUNT: &str = "hunt";
const DOCTOR: &str = "doctor";

/// The commands tried in each environment, in this order.
const COMMANDS: [&str; 8] = [RECORD, REPLAY, EXPLORE, SIMPLIFY, PREDICT, SLICE, HUNT, DOCTOR];

/// Time after which a command counts as hanging.
const HANGS: Duration = Duration::from_secs(600);

/// Returns a user without privileges. Users with different numbers do not share the process count, which is limited.
fn nobody(nth: u32) -> u32 {
    const FIRST: u32 = 30_000;
    FIRST + (4 * std::process::id() + nth) % FIRST
}

/// Result of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Outcome {
    /// The same result as without restrictions.
    Works,
    /// The same result, and one line that contains this text.
    Notes(String),
    /// Status 96, no result, and one message that contains this text.
    Refused(String),
    /// Anything else, which is a defect.
    Wrong(String),
}

impl Outcome {
    /// Returns whether this is the expected result.
    fn fits(&self, expected: &Self) -> bool {
        match (self, expected) {
            (Self::Works, Self::Works) => true,
            (Self::Notes(got), Self::Notes(part)) | (Self::Refused(got), Self::Refused(part)) => {
                got.contains(part.as_str())
            }
            _ => false,
        }
    }
}

/// Privileges that are needed to set up an environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Needs {
    Nothing,
    Root,
    Mounts,
}

#[derive(Clone, Debug)]
struct Environment {
    name: String,
    sandbox: Sandbox,
    needs: Needs,
    /// Use the program that fails by an assertion instead of an exit status; unwinding its stack takes longer.
    asserts: bool,
    /// Expected results other than [`Outcome::Works`].
    expected: BTreeMap<&'static str, Outcome>,
}

impl Environment {
    fn new(name: impl Into<String>, sandbox: Sandbox) -> Self {
        let needs = if !sandbox.mounts.is_empty() {
            Needs::Mounts
        } else if sandbox.user.is_some() {
            Needs::Root
        } else {
            Needs::Nothing
        };
        Self { name: name.into(), sandbox, needs, asserts: false, expected: BTreeMap::new() }
    }

    /// Uses the program that fails by an assertion.
    fn with_stacks(self) -> Self {
        Self { asserts: true, ..self }
    }

    /// Expects these commands to work and print a line that contains this text.
    fn notes(mut self, commands: &[&'static str], part: &str) -> Self {
        self.expected.extend(commands.iter().map(|&command| (command, Outcome::Notes(part.into()))));
        self
    }

    /// Expects address randomisation to stay on.
    fn randomised(self) -> Self {
        self.notes(&[DOCTOR], RANDOMISED).notes(&[REPLAY], OTHER_LAYOUT)
    }

    /// Expects these commands to be refused with this reason.
    fn refuses(mut self, commands: &[&'static str], part: &str) -> Self {
        self.expected.extend(commands.iter().map(|&command| (command, Outcome::Refused(part.into()))));
        self
    }

    fn expected(&self, command: &str) -> Outcome {
        self.expected.get(command).cloned().unwrap_or(Outcome::Works)
    }
}

fn deny(error: i32, calls: &[i64]) -> Vec<Denial> {
    calls.iter().map(|&call| Denial { call, when: DenyCondition::Always, error }).collect()
}

fn denied(denials: Vec<Denial>) -> Sandbox {
    Sandbox { denials, ..Sandbox::default() }
}

fn limited(resource: u32, soft: u64, hard: u64) -> Sandbox {
    Sandbox { limits: vec![(resource, soft, hard)], ..Sandbox::default() }
}

fn variables(variables: &[(&'static str, Option<&Path>)]) -> Sandbox {
    let variables = variables.iter().map(|(name, value)| (*name, value.map(Into::into)));
    Sandbox { variables: variables.collect(), ..Sandbox::default() }
}

/// Returns the restriction of `personality` in Docker's default profile.
fn personality(error: i32) -> Denial {
    const ALLOWED: &[u32] = &[0, 0x8, 0x2_0000, 0x2_0008, 0xffff_ffff];
    Denial { call: libc::SYS_personality, when: DenyCondition::NoneOf(0, ALLOWED), error }
}

const PR_SET_SYSCALL_USER_DISPATCH: u32 = 59;

fn prctl(option: u32, error: i32) -> Denial {
    Denial { call: libc::SYS_prctl, when: DenyCondition::Equal(0, option), error }
}

/// Returns the calls that Docker's default profile denies, apart from `personality`.
fn docker() -> Vec<Denial> {
    const NEW_NAMESPACES: u32 = 0x7e02_0000;
    let mut denials = deny(
        EPERM,
        &[
            libc::SYS_add_key,
            libc::SYS_bpf,
            libc::SYS_get_mempolicy,
            libc::SYS_io_uring_enter,
            libc::SYS_io_uring_register,
            libc::SYS_io_uring_setup,
            libc::SYS_kcmp,
            libc::SYS_keyctl,
            libc::SYS_mbind,
            libc::SYS_mount,
            libc::SYS_move_pages,
            libc::SYS_open_by_handle_at,
            libc::SYS_perf_event_open,
            libc::SYS_pivot_root,
            libc::SYS_request_key,
            libc::SYS_set_mempolicy,
            libc::SYS_setns,
            libc::SYS_umount2,
            libc::SYS_unshare,
            libc::SYS_userfaultfd,
        ],
    );
    denials.push(Denial {
        call: libc::SYS_clone,
        when: DenyCondition::AnyBit(0, NEW_NAMESPACES),
        error: EPERM,
    });
    denials.extend(deny(ENOSYS, &[libc::SYS_clone3]));
    denials
}

/// Returns the calls that a reimplemented kernel like gVisor's may lack, apart from `personality`.
fn gvisor() -> Vec<Denial> {
    let mut denials = deny(
        ENOSYS,
        &[
            libc::SYS_userfaultfd,
            libc::SYS_perf_event_open,
            libc::SYS_process_vm_readv,
            libc::SYS_process_vm_writev,
            libc::SYS_pidfd_open,
            libc::SYS_pidfd_send_signal,
            libc::SYS_rseq,
            libc::SYS_seccomp,
            libc::SYS_set_mempolicy,
            libc::SYS_sched_setaffinity,
            libc::SYS_clone3,
            libc::SYS_io_uring_setup,
            libc::SYS_kcmp,
        ],
    );
    let sealing = Denial {
        call: libc::SYS_memfd_create,
        when: DenyCondition::AnyBit(1, libc::MFD_ALLOW_SEALING),
        error: ENOSYS,
    };
    denials.push(sealing);
    denials.push(prctl(PR_SET_SYSCALL_USER_DISPATCH, ENOSYS));
    denials.push(prctl(libc::PR_SET_MM as u32, ENOSYS));
    denials
}

/// System calls that are denied one at a time.
const SINGLE: [(&str, i64); 18] = [
    ("process_vm_readv", libc::SYS_process_vm_readv),
    ("userfaultfd", libc::SYS_userfaultfd),
    ("perf_event_open", libc::SYS_perf_event_open),
    ("memfd_create", libc::SYS_memfd_create),
    ("pidfd_open", libc::SYS_pidfd_open),
    ("rseq", libc::SYS_rseq),
    ("seccomp", libc::SYS_seccomp),
    ("set_mempolicy", libc::SYS_set_mempolicy),
    ("sched_setaffinity", libc::SYS_sched_setaffinity),
    ("sched_getaffinity", libc::SYS_sched_getaffinity),
    ("clone3", libc::SYS_clone3),
    ("ptrace", libc::SYS_ptrace),
    ("kcmp", libc::SYS_kcmp),
    ("getcpu", libc::SYS_getcpu),
    ("setpgid", libc::SYS_setpgid),
    ("membarrier", libc::SYS_membarrier),
    ("kill", libc::SYS_kill),
    ("set_tid_address", libc::SYS_set_tid_address),
];

/// The note if programs are loaded at addresses that unsnarl chooses.
const RANDOMISED: &str = "address randomisation cannot be switched off here: ";

/// Parts of the doctor's findings and the other commands' notes.
const NO_MEMFD_CREATE: &str = "memfd_create is not available (";
const NO_CACHE: &str = "cannot be used (";
const NO_PROCESSES: &str = "is the number of processes limited (`ulimit -u`)? raise it, or use -j 1";
const FORBIDDEN: &str =
    "a container or sandbox forbids it: allow it (docker run --security-opt seccomp=unconfined)";

/// Returns all environments. `shared` holds their common files.
fn environments(shared: &Place) -> Vec<Environment> {
    let mut all = containers();
    for (error, code) in [("EPERM", EPERM), ("ENOSYS", ENOSYS)] {
        all.extend(single_calls(error, code));
    }
    all.push(
        Environment::new(
            "unprivileged user",
            Sandbox { user: is_root().then(|| nobody(0)), ..Sandbox::default() },
        )
        .with_stacks(),
    );
    all.push(Environment::new("no_new_privs", Sandbox { no_new_privileges: true, ..Sandbox::default() }));
    all.extend(directories(shared));
    all.extend(limits());
    all.push(Environment::new("stdin closed", Sandbox { closed: vec![0], ..Sandbox::default() }));
    all.push(Environment::new("stdout closed", Sandbox { closed: vec![1], ..Sandbox::default() }));
    all.push(
        Environment::new(
            "without /proc",
            mounted(vec![Mount::Small("/proc".into(), 4096)], Sandbox::default()),
        )
        .notes(&[SIMPLIFY], "no snapshots: its memory cannot be listed (is /proc mounted?)")
        .notes(&[DOCTOR], "/proc is not mounted: "),
    );
    all
}

fn containers() -> Vec<Environment> {
    let with_personality = |mut denials: Vec<Denial>, error: i32| {
        denials.push(personality(error));
        denied(denials)
    };
    let mut strict = docker();
    strict.extend(deny(EPERM, &[libc::SYS_process_vm_readv, libc::SYS_process_vm_writev, libc::SYS_ptrace]));
    vec![
        Environment::new("plain", Sandbox::default()).with_stacks(),
        Environment::new("docker", with_personality(docker(), EPERM)).with_stacks().randomised(),
        Environment::new("docker, stricter", with_personality(strict, EPERM)).with_stacks().randomised(),
        Environment::new("docker, ulimit -s unlimited", {
            let unlimited = vec![(libc::RLIMIT_STACK, RLIM_INFINITY, RLIM_INFINITY)];
            Sandbox { limits: unlimited, ..with_personality(docker(), EPERM) }
        })
        .randomised(),
        Environment::new("docker, no PR_SET_MM", {
            let mut denials = docker();
            denials.push(prctl(libc::PR_SET_MM as u32, EPERM));
            with_personality(denials, EPERM)
        })
        .randomised(),
        Environment::new("docker, personality allowed", denied(docker())).with_stacks(),
        Environment::new("gvisor-like", with_personality(gvisor(), ENOSYS)).with_stacks().randomised(),
        Environment::new("gvisor-like, personality allowed", denied(gvisor()))
            .with_stacks()
            .notes(&[DOCTOR], "syscall user dispatch, which is forbidden here"),
    ]
}

/// Returns environments in which one system call is denied.
fn single_calls(error: &str, code: i32) -> Vec<Environment> {
    let named =
        |name: &str, denials: Vec<Denial>| Environment::new(format!("{name}: {error}"), denied(denials));
    let mut all = vec![named("personality", vec![personality(code)]).randomised()];
    for (name, call) in SINGLE {
        let environment = named(name, deny(code, &[call]));
        all.push(match name {
            "process_vm_readv" => environment.with_stacks(),
            "memfd_create" => environment.notes(&COMMANDS, NO_MEMFD_CREATE),
            "pidfd_open" => environment.notes(&[DOCTOR], "pidfd_open is forbidden here: "),
            "kill" => environment.notes(&[DOCTOR], "kill is forbidden here: "),
            "seccomp" => environment.notes(&[DOCTOR], "seccomp is forbidden here: "),
            "setpgid" => environment.refuses(&COMMANDS, FORBIDDEN),
            // The C library uses the older call only if the newer one does not exist; otherwise no program can start
            // threads.
            "clone3" if code == EPERM => environment.refuses(&COMMANDS, FORBIDDEN),
            _ => environment,
        });
    }
    all.push(
        named("kill and pidfd_open", deny(code, &[libc::SYS_kill, libc::SYS_pidfd_open]))
            .refuses(&COMMANDS, FORBIDDEN),
    );
    all.push(
        named("syscall user dispatch", vec![prctl(PR_SET_SYSCALL_USER_DISPATCH, code)])
            .notes(&[DOCTOR], "syscall user dispatch, which is forbidden here"),
    );
    all.push(named("PR_SET_NO_NEW_PRIVS", vec![prctl(libc::PR_SET_NO_NEW_PRIVS as u32, code)]));
    all.push(
        named("PR_SET_PDEATHSIG", vec![prctl(libc::PR_SET_PDEATHSIG as u32, code)])
            .refuses(&COMMANDS, FORBIDDEN),
    );
    all
}

fn mounted(mounts: Vec<Mount>, sandbox: Sandbox) -> Sandbox {
    Sandbox { mounts, ..sandbox }
}

/// Returns environments with directories that are unusable or restricted.
fn directories(shared: &Place) -> Vec<Environment> {
    const SAVING: &[&str] = &[RECORD, EXPLORE, SIMPLIFY, PREDICT, HUNT];
    // Root could create a directory anywhere except below a file.
    let (nowhere, read_only, tmp) =
        (shared.path("lost.c/home"), shared.path("read-only"), shared.path("tmp"));
    let read_only_mount = || vec![Mount::ReadOnly(read_only.clone())];
    let full_tmp = || vec![Mount::Small(tmp.clone(), 4096)];
    let home = |home: &Path| variables(&[("HOME", Some(home))]);
    let in_directory =
        |directory: &Path, sandbox: Sandbox| Sandbox { directory: Some(directory.into()), ..sandbox };
    let no_memory_files = denied(deny(ENOSYS, &[libc::SYS_memfd_create]));
    let small_shm = || vec![Mount::Small("/dev/shm".into(), 4096)];
    vec![
        Environment::new("read-only HOME", mounted(read_only_mount(), home(&read_only)))
            .notes(&COMMANDS, NO_CACHE),
        Environment::new(
            "read-only cache directory",
            mounted(read_only_mount(), variables(&[("XDG_CACHE_HOME", Some(&read_only))])),
        )
        .notes(&COMMANDS, NO_CACHE),
        Environment::new("noexec HOME", mounted(vec![Mount::NoExec(read_only.clone())], home(&read_only)))
            .notes(&COMMANDS, "cannot be used (it is mounted noexec)"),
        Environment::new("HOME and XDG_CACHE_HOME unset", variables(&[("HOME", None)])),
        Environment::new("HOME=/nonexistent", home(&nowhere)).notes(&COMMANDS, NO_CACHE),
        Environment::new(
            "read-only current directory",
            mounted(read_only_mount(), in_directory(&read_only, Sandbox::default())),
        )
        .refuses(SAVING, "cannot make the directory .unsnarl (use -o FILE, or another directory)")
        .refuses(&[PREDICT], "cannot make the directory .unsnarl (run it in another directory)"),
        Environment::new(
            "read-only root, but for TMPDIR",
            mounted(
                vec![Mount::ReadOnly("/".into()), Mount::Small(tmp.clone(), 64 << 20)],
                in_directory(&tmp, variables(&[("HOME", Some(&read_only)), ("TMPDIR", Some(&tmp))])),
            ),
        )
        .notes(&COMMANDS, NO_CACHE),
        Environment::new("small /dev/shm", mounted(small_shm(), Sandbox::default())),
        Environment::new("small /dev/shm, no memfd_create", mounted(small_shm(), no_memory_files))
            .notes(&COMMANDS, NO_MEMFD_CREATE),
        Environment::new("full TMPDIR", mounted(full_tmp(), variables(&[("TMPDIR", Some(&tmp))]))),
        Environment::new(
            "full TMPDIR, HOME unset",
            mounted(full_tmp(), variables(&[("TMPDIR", Some(&tmp)), ("HOME", None)])),
        )
        .notes(&COMMANDS, NO_CACHE),
    ]
}

/// Returns environments with limits of `ulimit`.
fn limits() -> Vec<Environment> {
    const NO_SHADOW: &str = "cannot reserve address space for race detection";
    const NO_ADDRESSES: &str = "is address space or data limited (`ulimit -v`, `ulimit -d`)? raise it";
    const NO_DATA: &str =
        "at most 1000 KiB of data are allowed here (`ulimit -d`), and unsnarl needs 65536: raise the limit";
    // Root may raise limits and is exempt from some.
    let unprivileged =
        |sandbox: Sandbox, nth: u32| Sandbox { user: is_root().then(|| nobody(nth)), ..sandbox };
    vec![
        Environment::new("ulimit -s unlimited", limited(libc::RLIMIT_STACK, RLIM_INFINITY, RLIM_INFINITY))
            .with_stacks()
            .notes(&[REPLAY], OTHER_LAYOUT),
        Environment::new("ulimit -s 64", limited(libc::RLIMIT_STACK, 64 << 10, 64 << 10)).with_stacks(),
        Environment::new("ulimit -v 8 GiB", limited(libc::RLIMIT_AS, 8 << 30, 8 << 30))
            .refuses(&[REPLAY, EXPLORE, SIMPLIFY, PREDICT, HUNT], NO_SHADOW)
            .refuses(&[SLICE], NO_ADDRESSES)
            .notes(&[DOCTOR], "`ulimit -v` is set: data race detection is off"),
        Environment::new("ulimit -v 200 MiB", limited(libc::RLIMIT_AS, 200 << 20, 200 << 20))
            .refuses(&COMMANDS, NO_ADDRESSES),
        Environment::new("ulimit -d 1000", limited(libc::RLIMIT_DATA, 1000 << 10, 1000 << 10))
            .refuses(&COMMANDS, NO_DATA),
        Environment::new("ulimit -d 1 GiB", limited(libc::RLIMIT_DATA, 1 << 30, 1 << 30))
            .refuses(&[REPLAY, EXPLORE, SIMPLIFY, PREDICT, SLICE, HUNT], NO_SHADOW)
            .notes(&[DOCTOR], "`ulimit -d` is set: data race detection is off"),
        Environment::new("ulimit -n 256", limited(libc::RLIMIT_NOFILE, 256, 256)),
        Environment::new("ulimit -n 64, may be raised", limited(libc::RLIMIT_NOFILE, 64, 1024)),
        Environment::new("ulimit -n 64", unprivileged(limited(libc::RLIMIT_NOFILE, 64, 64), 0)).refuses(
            &COMMANDS,
            "at most 64 files may be open here (`ulimit -n`), and unsnarl needs 256: raise the limit",
        ),
        Environment::new("ulimit -u 1", unprivileged(limited(libc::RLIMIT_NPROC, 1, 1), 2))
            .refuses(&COMMANDS, NO_PROCESSES),
        Environment::new("ulimit -f 0", limited(libc::RLIMIT_FSIZE, 0, 0))
            .refuses(&COMMANDS, "raise the limit on the size of files (`ulimit -f unlimited`)"),
    ]
}

/// Output and end of a command.
#[derive(Clone, Debug, Default)]
struct CommandOutput {
    status: Option<i32>,
    /// The signal that ended it.
    signal: Option<i32>,
    hung: bool,
    stdout: String,
    stderr: String,
}

/// Returns the arguments of a command; its input files were made without restrictions.
fn arguments(command: &str, environment: &Environment, shared: &Place) -> Vec<String> {
    let name = program(environment.asserts);
    let path = |file: String| shared.path(&file).to_string_lossy().into_owned();
    let (program, good, bad) =
        (path(name.into()), path(format!("{name}-good.snarl")), path(format!("{name}-bad.snarl")));
    match command {
        RECORD => vec![command.into(), "--".into(), program],
        // If an environment hides the failure, the search ends after these runs.
        EXPLORE | HUNT => {
            [command, "--runs", "1000", "--"].map(String::from).into_iter().chain([program]).collect()
        }
        PREDICT => vec![command.into(), "--confirm".into(), good],
        DOCTOR => vec![command.into()],
        _ => vec![command.into(), bad],
    }
}

fn program(asserts: bool) -> &'static str {
    if asserts { "asserts" } else { "exits" }
}

/// Runs a command in an environment. The output fits into the pipes and is read after the end, so that a hanging
/// command is noticed.
///
/// An error means that the environment cannot be set up here.
fn run(
    environment: &Environment,
    command: &str,
    shared: &Place,
    own: &Path,
) -> std::io::Result<CommandOutput> {
    let mut child = Command::new(UNSNARL);
    child
        .args(arguments(command, environment, shared))
        .current_dir(own.join("work"))
        .env("HOME", shared.path("home"))
        .env("TMPDIR", own.join("tmp"))
        .env_remove("XDG_CACHE_HOME")
        .env_remove("RUST_BACKTRACE")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    environment.sandbox.apply(&mut child);
    let mut child = child.spawn()?;
    let until = Instant::now() + HANGS;
    let ended = loop {
        match child.try_wait().expect("a child") {
            Some(status) => break Some(status),
            None if Instant::now() > until => break None,
            None => std::thread::sleep(Duration::from_millis(1)),
        }
    };
    if ended.is_none() {
        // SAFETY: the group belongs to a child that was not reaped.
        unsafe { libc::kill(-(child.id() as i32), libc::SIGKILL) };
    }
    let output = child.wait_with_output().expect("a child");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok(CommandOutput {
        status: ended.and_then(|status| status.code()),
        signal: ended.and_then(|status| status.signal()),
        hung: ended.is_none(),
        stdout: text(&output.stdout),
        stderr: text(&output.stderr),
    })
}

/// The message of `replay` for other addresses than in the recording, which was made without restrictions.
const REPRODUCED: &str = "reproduced: ";
const OTHER_LAYOUT: &str = "but the program was loaded at other addresses";

/// The message of `simplify` if it uses no snapshots.
const NO_SNAPSHOTS: &str = "no snapshots: ";

/// Removes text that may differ from run to run.
fn comparable(text: &str) -> String {
    // Times, and the numbers of traces, which depend on existing files.
    let seconds = Regex::new(r"\d+\.\d+ s\b").expect("a pattern");
    let numbers = Regex::new(r"-\d+\.snarl").expect("a pattern");
    let varies = |line: &str| {
        ["took ", "unsnarl: ", NO_SNAPSHOTS, REPRODUCED].iter().any(|start| line.starts_with(start))
    };
    let lines = text.lines().filter(|line| !varies(line));
    lines
        .map(|line| numbers.replace_all(&seconds.replace_all(line, "TIME"), "-N.snarl").into_owned() + "\n")
        .collect()
}

/// Classifies the result of a command by comparing it to a run without restrictions.
fn judge(command: &str, printed: &CommandOutput, plain: &CommandOutput, stdout_is_closed: bool) -> Outcome {
    let CommandOutput { status, stdout, stderr, .. } = printed;
    let mut own: Vec<&str> = stderr.lines().filter_map(|line| line.strip_prefix("unsnarl: ")).collect();
    own.extend(stdout.lines().filter(|line| line.starts_with(NO_SNAPSHOTS)));
    own.extend(stderr.lines().filter(|line| line.starts_with(REPRODUCED) && line.contains(OTHER_LAYOUT)));
    let wrong = |why: &str| {
        let how = match (printed.hung, printed.signal) {
            (true, _) => "hung".to_owned(),
            (_, Some(signal)) => format!("signal {signal}"),
            _ => format!("status {status:?}"),
        };
        Outcome::Wrong(format!("{why}: {how}\n{stdout}{stderr}"))
    };
    if stderr.contains("panicked at") {
        return wrong("panicked");
    }
    if command == DOCTOR {
        let remarks: Vec<&str> = stdout.lines().filter(|line| !line.starts_with("ok ")).collect();
        return match (status, &remarks[..]) {
            (Some(0), []) => Outcome::Works,
            (Some(0), remarks) => Outcome::Notes(remarks.join("; ")),
            (Some(96), [_, ..]) => Outcome::Refused(remarks.join("; ")),
            (Some(96), []) if stdout_is_closed => Outcome::Refused(String::new()),
            _ => wrong("no verdict"),
        };
    }
    let same_result = *status == plain.status
        && (stdout_is_closed || comparable(stdout) == comparable(&plain.stdout))
        && comparable(stderr) == comparable(&plain.stderr);
    match (&own[..], status) {
        ([], _) if same_result => Outcome::Works,
        ([note], _) if same_result => Outcome::Notes((*note).to_owned()),
        ([reason], Some(96)) if stdout.is_empty() => Outcome::Refused((*reason).to_owned()),
        _ => wrong(if same_result { "more than one note" } else { "another result" }),
    }
}

/// Creates the directories of one environment.
fn lay_out(environment: &Environment, shared: &Place) -> std::path::PathBuf {
    let name: String =
        environment.name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let own = shared.path(&format!("in-{name}"));
    for directory in ["", "work", "tmp"] {
        fs::create_dir_all(own.join(directory)).expect("a directory");
        if let Some(user) = environment.sandbox.user {
            chown(own.join(directory), Some(user), Some(user)).expect("root may do so");
        }
    }
    own
}

/// Returns why an environment cannot be set up here.
fn cannot_be_made(environment: &Environment, shared: &Place, may_mount: bool) -> Option<&'static str> {
    match environment.needs {
        Needs::Root if !is_root() => Some("needs root"),
        Needs::Root if !is_reachable(shared) => Some("another user cannot reach the directory of the tests"),
        Needs::Mounts if !may_mount => Some("needs a mount namespace"),
        _ => None,
    }
}

/// Returns whether another user can reach the program.
fn is_reachable(shared: &Place) -> bool {
    let mut command = Command::new(UNSNARL);
    command.arg("--version").current_dir(&shared.0).stdout(Stdio::null()).stderr(Stdio::null());
    Sandbox { user: Some(nobody(0)), ..Sandbox::default() }.apply(&mut command);
    command.status().is_ok_and(|status| status.success())
}

#[test]
fn commands_work_or_say_what_keeps_them_from_it() {
    let shared = Place::new("matrix");
    for directory in ["home", "read-only", "tmp"] {
        fs::create_dir(shared.path(directory)).expect("a directory");
        // Other users share the cache.
        fs::set_permissions(shared.path(directory), PermissionsExt::from_mode(0o777)).expect("permissions");
    }
    shared.write("lost.c", PROGRAM);
    let prepare = |args: &[&str], status: i32| {
        let mut command = shared.command(UNSNARL, args);
        command.env("HOME", shared.path("home")).env_remove("XDG_CACHE_HOME");
        let output = command.output().expect("unsnarl runs");
        assert_eq!(output.status.code(), Some(status), "{args:?}\n{}", common::printed(&output));
    };
    let reference = [false, true].map(|asserts| {
        let name = program(asserts);
        let flag = if asserts { "-DASSERTS" } else { "-UASSERTS" };
        prepare(&["cc", "-O1", "-g", "-pthread", flag, "lost.c", "-o", name], 0);
        prepare(&["record", "-o", &format!("{name}-good.snarl"), "--", &format!("./{name}")], 0);
        prepare(&["explore", "-o", &format!("{name}-bad.snarl"), "--", &format!("./{name}")], 100);
        let plain = Environment { asserts, ..Environment::new(format!("plain {name}"), Sandbox::default()) };
        let own = lay_out(&plain, &shared);
        COMMANDS.map(|command| (command, run(&plain, command, &shared, &own).expect("unsnarl runs")))
    });
    let reference = reference.map(BTreeMap::from);

    let only = std::env::var("UNSNARL_ENVIRONMENT").ok();
    let may_mount = can_mount();
    let mut all = environments(&shared);
    // `UNSNARL_ENVIRONMENT` selects some of them.
    all.retain(|environment| only.as_ref().is_none_or(|only| environment.name.contains(only.as_str())));
    let next = AtomicUsize::new(0);
    let results: Vec<Mutex<Option<Vec<Outcome>>>> = all.iter().map(|_| Mutex::new(None)).collect();
    let work = || {
        while let Some(environment) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
            if let Some(why) = cannot_be_made(environment, &shared, may_mount) {
                println!("skipped {}: {why}", environment.name);
                continue;
            }
            let own = lay_out(environment, &shared);
            let closed = environment.sandbox.closed.contains(&1);
            let done = COMMANDS.iter().map(|command| {
                let printed = run(environment, command, &shared, &own)?;
                if only.is_some() {
                    println!("== {}: {command}\n{}{}", environment.name, printed.stdout, printed.stderr);
                }
                let plain = &reference[usize::from(environment.asserts)][command];
                Ok(judge(command, &printed, plain, closed))
            });
            let at = all.iter().position(|other| other.name == environment.name).expect("it is one of them");
            match done.collect::<std::io::Result<Vec<Outcome>>>() {
                Ok(done) => *results[at].lock().expect("nobody panicked") = Some(done),
                Err(error) => println!("skipped {}: {error}", environment.name),
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(2, Into::into) {
            scope.spawn(work);
        }
    });

    let results: Vec<Option<Vec<Outcome>>> =
        results.into_iter().map(|result| result.into_inner().expect("nobody panicked")).collect();
    let mut unexpected = String::new();
    for (environment, results) in all.iter().zip(&results) {
        for (command, got) in COMMANDS.iter().zip(results.iter().flatten()) {
            let expected = environment.expected(command);
            if !got.fits(&expected) {
                unexpected +=
                    &format!("{}, {command}: expected {expected:?}, got {got:?}\n", environment.name);
            }
        }
    }
    let table = table(&all, &results, &shared);
    println!("{table}");
    assert!(unexpected.is_empty(), "{unexpected}");
    if std::env::var_os("UNSNARL_UPDATE").is_some() {
        let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/environments.md");
        let text = fs::read_to_string(&document).expect("the document");
        let (head, _) = text.split_once(TABLE).expect("where the table begins");
        fs::write(&document, format!("{head}{TABLE}\n\n{table}")).expect("the document");
    }
}

/// The line before the table in its document.
const TABLE: &str = "<!-- The rest is written by crates/cli/tests/environments.rs. -->";

/// With few processes a command works, if they are enough, or is refused. How many it needs depends on the machine.
#[test]
fn few_processes_are_enough_or_the_message_names_the_limit() {
    let shared = Place::new("processes");
    fs::create_dir(shared.path("home")).expect("a directory");
    fs::set_permissions(shared.path("home"), PermissionsExt::from_mode(0o777)).expect("permissions");
    if !is_root() || !is_reachable(&shared) {
        println!("skipped: needs root, and a directory that another user can reach");
        return;
    }
    shared.write("lost.c", PROGRAM);
    shared.unsnarl(0, &["cc", "-O1", "-g", "-pthread", "lost.c", "-o", program(false)]);
    let plain = Environment::new("plain", Sandbox::default());
    let expected = run(&plain, EXPLORE, &shared, &lay_out(&plain, &shared)).expect("unsnarl runs");
    for most in 2..=8 {
        let sandbox = Sandbox { user: Some(nobody(1)), ..limited(libc::RLIMIT_NPROC, most, most) };
        let few = Environment::new(format!("ulimit -u {most}"), sandbox);
        let printed = run(&few, EXPLORE, &shared, &lay_out(&few, &shared)).expect("unsnarl runs");
        match judge(EXPLORE, &printed, &expected, false) {
            Outcome::Works => {}
            Outcome::Refused(why) if why.contains("ulimit -u") => {}
            other => panic!("{most}: {other:?}"),
        }
    }
}

/// A program that starts a child, and neither of them ends. The directory names it in `/proc`.
const NEVER_ENDS: &str = "
#include <unistd.h>
int main(void) {
    if (fork() == 0) for (;;) pause();
    for (volatile int forever = 1; forever;) {}
    return 0;
}
";

#[test]
fn no_process_is_left_behind_without_kill() {
    let place = Place::new("no-kill");
    fs::create_dir(place.path("home")).expect("a directory");
    place.cc("never_ends", NEVER_ENDS);
    let program = place.path("never_ends");
    for error in [EPERM, ENOSYS] {
        let mut command = place.command(UNSNARL, &["record", "--timeout", "1", "--", "./never_ends"]);
        denied(deny(error, &[libc::SYS_kill])).apply(&mut command);
        let output = command.output().expect("unsnarl runs");
        assert_eq!(output.status.code(), Some(104), "{}", common::printed(&output));
        let processes = fs::read_dir("/proc").expect("/proc is mounted").flatten();
        let left = processes.filter(|process| {
            let executable = fs::read_link(process.path().join("exe"));
            executable.is_ok_and(|executable| executable == program)
        });
        assert_eq!(left.count(), 0);
    }
}

/// A program that prints its stack limits, races, and uses more stack than is allowed by default.
const STACKS: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
static int *shared;
static void *add(void *unused) { ++*shared; return unused; }
static int deep(int kib) {
    volatile char frame[1024];
    memset((char *)frame, kib, sizeof frame);
    return kib ? deep(kib - 1) + frame[512] - (char)kib : 0;
}
int main(void) {
    struct rlimit limit;
    pthread_attr_t attributes;
    pthread_t first, second;
    size_t size;
    int on_stack = 0;
    getrlimit(RLIMIT_STACK, &limit);
    pthread_getattr_default_np(&attributes);
    pthread_attr_getstacksize(&attributes, &size);
    printf("soft %lx hard %lx thread %zx\n", limit.rlim_cur, limit.rlim_max, size);
    printf("deep %d\n", deep(100 << 10));
    shared = &on_stack;
    pthread_create(&first, 0, add, 0);
    pthread_getattr_np(first, &attributes);
    pthread_attr_getstacksize(&attributes, &size);
    printf("first %zx\n", size);
    pthread_create(&second, 0, add, 0);
    pthread_join(first, 0);
    pthread_join(second, 0);
    return 0;
}
"#;

#[test]
fn a_program_finds_the_unlimited_stack_that_it_has_without_us() {
    let place = Place::new("stack");
    fs::create_dir(place.path("home")).expect("a directory");
    place.cc("stacks", STACKS);
    let unlimited = limited(libc::RLIMIT_STACK, RLIM_INFINITY, RLIM_INFINITY);
    let output = |program: &str, args: &[&str]| {
        let mut command = place.command(program, args);
        unlimited.apply(&mut command);
        match command.output() {
            Ok(output) => Some(output),
            Err(error) => {
                println!("skipped: the hard limit cannot be raised: {error}");
                None
            }
        }
    };
    let Some(native) = output("./stacks", &[]) else { return };
    let (status, errors) = (native.status, String::from_utf8_lossy(&native.stderr).into_owned());
    let native = String::from_utf8_lossy(&native.stdout).into_owned();
    let limits = "soft ffffffffffffffff hard ffffffffffffffff thread 200000\ndeep ";
    assert!(native.contains(limits), "{status}: {native}{errors}");
    let controlled = output("env", &[UNSNARL, "record", "--", "./stacks"]).expect("as before");
    assert_eq!(String::from_utf8_lossy(&controlled.stdout), native, "{}", common::printed(&controlled));
    // The race detector watches the stack and the mappings at their actual addresses.
    let raced =
        output("env", &[UNSNARL, "explore", "--fail-on", "race", "--", "./stacks"]).expect("as before");
    assert_eq!(raced.status.code(), Some(100), "{}", common::printed(&raced));
    assert!(common::printed(&raced).contains("data race"), "{}", common::printed(&raced));
}

/// Returns the results as a Markdown table, followed by the texts of notes and messages.
fn table(environments: &[Environment], results: &[Option<Vec<Outcome>>], shared: &Place) -> String {
    let mut text =
        format!("| environment | {} |\n|{}\n", COMMANDS.join(" | "), " --- |".repeat(COMMANDS.len() + 1));
    let mut remarks: Vec<String> = Vec::new();
    for (environment, results) in environments.iter().zip(results) {
        let Some(results) = results else { continue };
        text += &format!("| {} |", environment.name);
        for result in results {
            let (word, remark) = match result {
                Outcome::Works => ("works", None),
                Outcome::Notes(remark) => ("works with a note", Some(remark)),
                Outcome::Refused(remark) => ("refused", Some(remark)),
                Outcome::Wrong(_) => ("WRONG", None),
            };
            let number = remark.map(|remark| {
                let remark = without_paths(remark, shared);
                let known = remarks.iter().position(|known| *known == remark);
                known.unwrap_or_else(|| {
                    remarks.push(remark);
                    remarks.len() - 1
                }) + 1
            });
            text += &match number {
                Some(number) => format!(" {word} ({number}) |"),
                None => format!(" {word} |"),
            };
        }
        text += "\n";
    }
    text += "\n";
    for (number, remark) in (1..).zip(&remarks) {
        text += &format!("{number}. {remark}\n");
    }
    text
}

/// Replaces the directories of the test by readable names.
fn without_paths(text: &str, shared: &Place) -> String {
    let root = regex::escape(&shared.0.to_string_lossy());
    let rules = [
        (format!("{root}/read-only"), "~"),
        (format!("{root}/lost.c/home"), "/nonexistent"),
        (format!("{root}/(in-[^/]*/)?tmp"), "$$TMPDIR"),
        (r"unsnarl-\d+/unsnarl/[0-9a-f]{16}".to_owned(), "unsnarl-UID/unsnarl/VERSION"),
        (r"unsnarl-\d+ ".to_owned(), "unsnarl-UID "),
        (r" +".to_owned(), " "),
    ];
    rules.iter().fold(text.to_owned(), |text, (from, to)| {
        Regex::new(from).expect("a pattern").replace_all(&text, *to).into_owned()
    })
}
