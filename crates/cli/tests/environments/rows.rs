//! The environments and what each command does in them.

use crate::{
    common::Place,
    matrix::{OTHER_LAYOUT, Outcome},
    sandbox::{Denial, DenyCondition, Mount, Sandbox, is_root},
};
use libc::{ENOSYS, EPERM, RLIM_INFINITY};
use std::{collections::BTreeMap, path::Path};

pub(crate) const RECORD: &str = "record";
pub(crate) const REPLAY: &str = "replay";
pub(crate) const EXPLORE: &str = "explore";
pub(crate) const SIMPLIFY: &str = "simplify";
pub(crate) const PREDICT: &str = "predict";
pub(crate) const SLICE: &str = "slice";
pub(crate) const HUNT: &str = "hunt";
pub(crate) const DOCTOR: &str = "doctor";

/// The commands tried in each environment, in this order.
pub(crate) const COMMANDS: [&str; 8] = [RECORD, REPLAY, EXPLORE, SIMPLIFY, PREDICT, SLICE, HUNT, DOCTOR];

/// Returns a user without privileges. Users with different numbers do not share the process count, which is limited.
pub(crate) fn nobody(nth: u32) -> u32 {
    const FIRST: u32 = 30_000;
    FIRST + (4 * std::process::id() + nth) % FIRST
}

/// Privileges that are needed to set up an environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needs {
    Nothing,
    Root,
    Mounts,
}

#[derive(Clone, Debug)]
pub(crate) struct Environment {
    pub(crate) name: String,
    pub(crate) sandbox: Sandbox,
    pub(crate) needs: Needs,
    /// Use the program that fails by an assertion instead of an exit status; unwinding its stack takes longer.
    pub(crate) asserts: bool,
    /// Expected results other than [`Outcome::Works`].
    pub(crate) expected: BTreeMap<&'static str, Outcome>,
}

impl Environment {
    pub(crate) fn new(name: impl Into<String>, sandbox: Sandbox) -> Self {
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

    pub(crate) fn expected(&self, command: &str) -> Outcome {
        self.expected.get(command).cloned().unwrap_or(Outcome::Works)
    }
}

pub(crate) fn deny(error: i32, calls: &[i64]) -> Vec<Denial> {
    calls.iter().map(|&call| Denial { call, when: DenyCondition::Always, error }).collect()
}

pub(crate) fn denied(denials: Vec<Denial>) -> Sandbox {
    Sandbox { denials, ..Sandbox::default() }
}

pub(crate) fn limited(resource: u32, soft: u64, hard: u64) -> Sandbox {
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
pub(crate) fn environments(shared: &Place) -> Vec<Environment> {
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
