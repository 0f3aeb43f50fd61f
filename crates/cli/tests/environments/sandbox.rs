//! Runs a command in an environment that forbids something: system calls, resources, directories, privileges.
//!
//! Everything is set up in the child, between fork and exec, so that the test itself stays unrestricted. Memory for the
//! child is allocated before the fork.

use libc::{
    BPF_ABS, BPF_ALU, BPF_AND, BPF_JEQ, BPF_JMP, BPF_K, BPF_LD, BPF_RET, BPF_W, c_int, c_ulong, sock_filter,
};
use std::{
    ffi::{CString, OsString},
    io,
    os::unix::{ffi::OsStrExt, process::CommandExt},
    path::{Path, PathBuf},
    process::Command,
};

/// The arguments for which a system call is denied.
#[derive(Clone, Debug)]
pub(crate) enum DenyCondition {
    Always,
    /// The low half of the nth argument has this value.
    Equal(u32, u32),
    /// The low half of the nth argument has one of these bits set.
    AnyBit(u32, u32),
    /// The low half of the nth argument has none of these values.
    NoneOf(u32, &'static [u32]),
}

/// A system call that fails with an error number.
#[derive(Clone, Debug)]
pub(crate) struct Denial {
    pub(crate) call: i64,
    pub(crate) when: DenyCondition,
    pub(crate) error: c_int,
}

/// A mount for the command alone, in a separate mount namespace.
#[derive(Clone, Debug)]
pub(crate) enum Mount {
    /// This directory is read-only.
    ReadOnly(PathBuf),
    /// This directory is an empty file system with room for this many bytes.
    Small(PathBuf, u64),
    /// This directory is an empty file system whose files cannot be executed.
    NoExec(PathBuf),
}

/// An environment for one command.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sandbox {
    pub(crate) denials: Vec<Denial>,
    /// Resource, soft limit, hard limit.
    pub(crate) limits: Vec<(u32, u64, u64)>,
    /// Run without privileges, as this user and group.
    pub(crate) user: Option<u32>,
    pub(crate) no_new_privileges: bool,
    pub(crate) mounts: Vec<Mount>,
    /// The current directory; `None` for that of the command.
    pub(crate) directory: Option<PathBuf>,
    /// Environment variables; `None` removes one.
    pub(crate) variables: Vec<(&'static str, Option<OsString>)>,
    /// Descriptors to close.
    pub(crate) closed: Vec<c_int>,
}

/// Returns whether the tests run as root.
pub(crate) fn is_root() -> bool {
    // SAFETY: the call only queries.
    unsafe { libc::geteuid() == 0 }
}

/// Returns whether the tests may mount in a separate namespace.
pub(crate) fn can_mount() -> bool {
    let mut command = Command::new("true");
    Sandbox { mounts: vec![Mount::Small("/mnt".into(), 4096)], ..Sandbox::default() }.apply(&mut command);
    command.status().is_ok_and(|status| status.success())
}

impl Sandbox {
    /// Makes the command run in this environment.
    pub(crate) fn apply(&self, command: &mut Command) {
        for (name, value) in &self.variables {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let mounts: Vec<PreparedMount> = self.mounts.iter().map(PreparedMount::new).collect();
        let directory = self.directory.as_deref().map(text);
        let mut filter = filter(&self.denials);
        let Self { limits, user, no_new_privileges, closed, .. } = self.clone();
        let enter = move || {
            if !mounts.is_empty() {
                own_namespace()?;
                mounts.iter().try_for_each(PreparedMount::mount)?;
            }
            // A mount over a directory is found only by looking up its path again.
            if let Some(directory) = &directory {
                // SAFETY: the string ends with a zero byte.
                check(unsafe { libc::chdir(directory.as_ptr()) })?;
            }
            for &(resource, soft, hard) in &limits {
                let limit = libc::rlimit { rlim_cur: soft, rlim_max: hard };
                // SAFETY: the kernel only reads the limit.
                check(unsafe { libc::setrlimit(resource, &raw const limit) })?;
            }
            if let Some(user) = user {
                become_user(user)?;
            }
            if no_new_privileges || !filter.is_empty() {
                // SAFETY: changes a setting of the calling process.
                check(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) })?;
            }
            for &fd in &closed {
                // SAFETY: the descriptor belongs to the command and is used nowhere else.
                unsafe { libc::close(fd) };
            }
            if !filter.is_empty() {
                let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
                let mode = libc::SECCOMP_MODE_FILTER as c_ulong;
                // SAFETY: the kernel copies the filter.
                check(unsafe { libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const program) })?;
            }
            Ok(())
        };
        // SAFETY: the closure makes only system calls; nothing is allocated or freed.
        unsafe { command.pre_exec(enter) };
    }
}

fn check(result: c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn text(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).expect("no zero byte")
}

/// A mount with its strings as C strings.
struct PreparedMount {
    path: CString,
    /// Options of a new file system; `None` makes the existing one read-only.
    options: Option<CString>,
    flags: c_ulong,
}

impl PreparedMount {
    fn new(mount: &Mount) -> Self {
        match mount {
            Mount::ReadOnly(place) => Self { path: text(place), options: None, flags: 0 },
            Mount::Small(place, size) => {
                let options = CString::new(format!("size={size},mode=1777")).expect("no zero byte");
                Self { path: text(place), options: Some(options), flags: 0 }
            }
            Mount::NoExec(place) => {
                Self { path: text(place), options: Some(c"mode=1777".into()), flags: libc::MS_NOEXEC }
            }
        }
    }

    fn mount(&self) -> io::Result<()> {
        let path = self.path.as_ptr();
        let none = std::ptr::null();
        // SAFETY: the strings end with zero bytes; the mounts are visible only in this namespace.
        unsafe {
            match &self.options {
                Some(options) => {
                    let kind = c"tmpfs".as_ptr();
                    check(libc::mount(kind, path, kind, self.flags, options.as_ptr().cast()))
                }
                None => {
                    // The root is a mount already, and nothing can be mounted over it for this process.
                    if self.path.as_bytes() != b"/" {
                        check(libc::mount(path, path, none, libc::MS_BIND | libc::MS_REC, none.cast()))?;
                    }
                    let again = libc::MS_REMOUNT | libc::MS_BIND | libc::MS_RDONLY;
                    check(libc::mount(none, path, none, again, none.cast()))
                }
            }
        }
    }
}

/// Enters a mount namespace whose mounts are visible nowhere else.
fn own_namespace() -> io::Result<()> {
    let private = libc::MS_REC | libc::MS_PRIVATE;
    // SAFETY: affects only the calling process.
    unsafe {
        check(libc::unshare(libc::CLONE_NEWNS))?;
        check(libc::mount(c"none".as_ptr(), c"/".as_ptr(), std::ptr::null(), private, std::ptr::null()))
    }
}

/// Drops other groups and, by the change from root to another user, all capabilities.
fn become_user(user: u32) -> io::Result<()> {
    // SAFETY: the raw calls affect the calling process, which has one thread.
    unsafe {
        check(libc::syscall(libc::SYS_setgroups, 0, 0) as c_int)?;
        check(libc::syscall(libc::SYS_setresgid, user, user, user) as c_int)?;
        check(libc::syscall(libc::SYS_setresuid, user, user, user) as c_int)
    }
}

/// Returns the filter that denies these calls and allows all others; empty if there is nothing to deny.
fn filter(denials: &[Denial]) -> Vec<sock_filter> {
    const NUMBER: u32 = 0;
    let argument = |nth: u32| 16 + 8 * nth;
    let step = |code: u32, k: u32, yes: u8, no: u8| sock_filter { code: code as u16, jt: yes, jf: no, k };
    let load = |at: u32| step(BPF_LD | BPF_W | BPF_ABS, at, 0, 0);
    let equal = |value: u32, yes: u8, no: u8| step(BPF_JMP | BPF_JEQ | BPF_K, value, yes, no);
    let mut program = Vec::new();
    for Denial { call, when, error } in denials {
        let deny = step(BPF_RET | BPF_K, libc::SECCOMP_RET_ERRNO | *error as u32, 0, 0);
        let judge = match when {
            DenyCondition::Always => vec![deny],
            DenyCondition::Equal(nth, value) => vec![load(argument(*nth)), equal(*value, 0, 1), deny],
            DenyCondition::AnyBit(nth, bits) => {
                let mask = step(BPF_ALU | BPF_AND | BPF_K, *bits, 0, 0);
                vec![load(argument(*nth)), mask, equal(0, 1, 0), deny]
            }
            DenyCondition::NoneOf(nth, values) => {
                let mut judge = vec![load(argument(*nth))];
                for (left, value) in (1..=values.len() as u8).rev().zip(*values) {
                    judge.push(equal(*value, left, 0));
                }
                judge.push(deny);
                judge
            }
        };
        program.push(load(NUMBER));
        program.push(equal(*call as u32, 0, judge.len() as u8));
        program.extend(judge);
    }
    if !program.is_empty() {
        program.push(step(BPF_RET | BPF_K, libc::SECCOMP_RET_ALLOW, 0, 0));
    }
    program
}
