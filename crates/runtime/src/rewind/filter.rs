//! The system calls that a rewound process may make.
//!
//! A rewind restores memory, the signal mask and the end of the heap. Calls that would change more of the
//! kernel's state are forbidden: the kernel kills the process before such a call takes effect, and a process
//! that is not rewound repeats the run. The allowed calls are listed here, by the values that the kernel
//! passes to a filter ([seccomp](https://docs.kernel.org/userspace-api/seccomp_filter.html)). Calls that map
//! memory are redirected to [`super::layout`], and calls that create threads to [`super::thread_start`]; both
//! make the real calls from exempted places.

use super::call;
use crate::sys;
use libc::{BPF_ABS, BPF_JEQ, BPF_JMP, BPF_K, BPF_LD, BPF_RET, BPF_W, sock_filter};

/// Offsets in the data that the kernel passes to a filter.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const POINTER: u32 = 8;
const fn argument(nth: u32) -> u32 {
    16 + 8 * nth
}

const X86_64: u32 = 0xc000_003e;

/// The condition under which a call is allowed.
#[derive(Clone, Copy)]
enum AllowRule {
    Always,
    /// Its nth argument is at most this.
    AtMost(u32, u32),
    /// Its nth argument is the id of this process.
    Own(u32),
    /// Its nth argument is null.
    Null(u32),
    /// The call is not made and returns this error: `ENOSYS` if there is an older call whose arguments can be
    /// inspected, and 0 for registrations of a new thread, which is no kernel thread.
    Never(i32),
}
use AllowRule::{Always, AtMost, Never, Null, Own};

/// The highest descriptor that may be used: the standard streams, whose output the controller drains.
const MAX_STREAM: u32 = 2;

const CALLS: [(i64, AllowRule); 42] = [
    (libc::SYS_brk, Always),
    (libc::SYS_futex, Always),
    (libc::SYS_clone3, Never(libc::ENOSYS)),
    (libc::SYS_set_robust_list, Always),
    (libc::SYS_set_tid_address, Always),
    (libc::SYS_rseq, Never(0)),
    (libc::SYS_exit, Always),
    (libc::SYS_exit_group, Always),
    (libc::SYS_rt_sigprocmask, Always),
    (libc::SYS_rt_sigreturn, Always),
    (libc::SYS_rt_sigaction, Null(1)),
    (libc::SYS_sigaltstack, Null(0)),
    (libc::SYS_tgkill, Own(0)),
    (libc::SYS_sched_yield, Always),
    (libc::SYS_sched_getaffinity, Always),
    (libc::SYS_getcpu, Always),
    (libc::SYS_getpid, Always),
    (libc::SYS_gettid, Always),
    (libc::SYS_getppid, Always),
    (libc::SYS_getuid, Always),
    (libc::SYS_geteuid, Always),
    (libc::SYS_getgid, Always),
    (libc::SYS_getegid, Always),
    (libc::SYS_getrusage, Always),
    (libc::SYS_getrandom, Always),
    (libc::SYS_clock_gettime, Always),
    (libc::SYS_gettimeofday, Always),
    (libc::SYS_process_vm_readv, Always),
    (libc::SYS_prlimit64, Null(2)),
    (libc::SYS_read, AtMost(0, MAX_STREAM)),
    (libc::SYS_write, AtMost(0, MAX_STREAM)),
    (libc::SYS_writev, AtMost(0, MAX_STREAM)),
    (libc::SYS_lseek, AtMost(0, MAX_STREAM)),
    (libc::SYS_fstat, Always),
    (libc::SYS_newfstatat, Always),
    (libc::SYS_stat, Always),
    (libc::SYS_lstat, Always),
    (libc::SYS_statx, Always),
    (libc::SYS_access, Always),
    (libc::SYS_faccessat, Always),
    (libc::SYS_readlinkat, Always),
    (libc::SYS_getcwd, Always),
];

/// The filter under construction.
struct FilterProgram {
    steps: [sock_filter; 512],
    len: usize,
}

impl FilterProgram {
    fn add(&mut self, code: u32, k: u32, yes: u8, no: u8) {
        if let Some(step) = self.steps.get_mut(self.len) {
            *step = sock_filter { code: code as u16, jt: yes, jf: no, k };
            self.len += 1;
        }
    }

    fn load(&mut self, at: u32) {
        self.add(BPF_LD | BPF_W | BPF_ABS, at, 0, 0);
    }

    fn end(&mut self, action: u32) {
        self.add(BPF_RET | BPF_K, action, 0, 0);
    }

    /// Continues with the next instruction if the loaded value equals `value`, else skips so many.
    fn unless_equal(&mut self, value: u32, skip: u8) {
        self.add(BPF_JMP | BPF_JEQ | BPF_K, value, 0, skip);
    }

    /// Emits the instructions that apply a rule to its call.
    fn emit_rule(&mut self, when: AllowRule) {
        const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;
        const KILL: u32 = libc::SECCOMP_RET_KILL_PROCESS;
        match when {
            Always => {}
            Never(error) => return self.end(libc::SECCOMP_RET_ERRNO | error as u32),
            AtMost(nth, most) => {
                self.load(argument(nth));
                self.add(BPF_JMP | libc::BPF_JGT | BPF_K, most, 0, 1);
                self.end(KILL);
            }
            Own(nth) => {
                self.load(argument(nth));
                self.add(BPF_JMP | BPF_JEQ | BPF_K, sys::process() as u32, 1, 0);
                self.end(KILL);
            }
            Null(nth) => {
                for half in [0, 4] {
                    self.load(argument(nth) + half);
                    self.add(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 0);
                    self.end(KILL);
                }
            }
        }
        self.end(ALLOW);
    }
}

/// Installs the filter: afterwards all other calls are forbidden except from [exempted
/// places](super::exempt_return_addresses). Returns false if the system does not support it.
pub(super) fn install() -> bool {
    const NOTHING: sock_filter = sock_filter { code: 0, jt: 0, jf: 0, k: 0 };
    let mut program = FilterProgram { steps: [NOTHING; 512], len: 0 };
    program.load(ARCHITECTURE);
    program.unless_equal(X86_64, 1);
    program.add(BPF_JMP | libc::BPF_JA, 1, 0, 0);
    program.end(libc::SECCOMP_RET_KILL_PROCESS);
    for after in super::exempt_return_addresses() {
        program.load(POINTER);
        program.unless_equal(after as u32, 3);
        program.load(POINTER + 4);
        program.unless_equal((after as u64 >> 32) as u32, 1);
        program.end(libc::SECCOMP_RET_ALLOW);
    }
    for (number, when) in CALLS {
        program.load(NUMBER);
        let start = program.len;
        program.unless_equal(number as u32, 0);
        program.emit_rule(when);
        program.steps[start].jf = (program.len - start - 1) as u8;
    }
    program.end(libc::SECCOMP_RET_KILL_PROCESS);
    let program_header = libc::sock_fprog { len: program.len as u16, filter: program.steps.as_mut_ptr() };
    // SAFETY: the kernel reads the filter. Privileges are not needed, because no other program is executed.
    unsafe {
        call(libc::SYS_prctl, [libc::PR_SET_NO_NEW_PRIVS as usize, 1, 0, 0, 0, 0]) == 0
            && call(
                libc::SYS_seccomp,
                [libc::SECCOMP_SET_MODE_FILTER as usize, 0, &raw const program_header as usize, 0, 0, 0],
            ) == 0
    }
}
