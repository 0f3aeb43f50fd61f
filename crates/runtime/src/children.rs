//! The program's child processes: their virtual ids, and which of them ended.
//!
//! The kernel's ids differ from run to run. So the program sees virtual ids in the order in which the
//! children were started, and functions that take a process id accept these.

use crate::{files::OpenFile, log::until_zero, stack, state::Runtime, sys, time_stamp};
use alloc::vec::Vec;
use core::{
    cell::UnsafeCell,
    fmt::{self, Write},
    sync::atomic::{AtomicU32, Ordering},
};

/// The first child's id: above those of the process and its threads, and above all that the kernel assigns.
const FIRST: i32 = 5_100_000;

/// The kernel's ids of the children in start order; 0 for those that are gone.
struct Table(UnsafeCell<Vec<i32>>);

// SAFETY: only the running thread reaches it.
unsafe impl Sync for Table {}

static KERNEL_IDS: Table = Table(UnsafeCell::new(Vec::new()));

fn kernel_ids() -> &'static mut Vec<i32> {
    // SAFETY: only the running thread gets here, and no caller keeps the reference.
    unsafe { &mut *KERNEL_IDS.0.get() }
}

/// Adds a child with this kernel id; returns its virtual id.
pub(crate) fn add(process: i32) -> i32 {
    kernel_ids().push(process);
    FIRST + kernel_ids().len() as i32 - 1
}

/// Turns this process into the child that the next [`add`] would register, and gives up control.
pub(crate) fn become_child() {
    if Runtime::interrupted().is_some() {
        add(sys::process());
        time_stamp::stop();
        Runtime::abandon();
    }
}

/// Makes forked children uncontrolled before the program's own fork handlers run in them, however they were
/// forked.
pub(crate) fn install_fork_handler() {
    // SAFETY: a handler with the required signature.
    unsafe { libc::pthread_atfork(None, None, Some(after_fork_in_child)) };
}

unsafe extern "C" fn after_fork_in_child() {
    become_child();
}

/// Waits until the children are idle: then their output and exits do not depend on their speed. The waiting
/// per run is limited, for children that are always busy.
pub(crate) fn settle() {
    static CHECKS_LEFT: AtomicU32 = AtomicU32::new(20_000);
    let mut asleep = 0;
    while asleep < IDLE_CHECKS && kernel_ids().iter().any(|&process| process > 0) {
        if kernel_ids().iter().any(|&process| process > 0 && is_busy(process, MAX_GENERATIONS)) {
            asleep = 0;
            let left = CHECKS_LEFT.load(Ordering::Relaxed);
            if left == 0 {
                return;
            }
            CHECKS_LEFT.store(left - 1, Ordering::Relaxed);
        } else {
            asleep += 1;
        }
        sleep_briefly();
    }
}

fn sleep_briefly() {
    let time = crate::clock::timespec(CHECK_INTERVAL);
    // SAFETY: only sleeps.
    unsafe { sys::call(libc::SYS_nanosleep, [&raw const time as usize, 0, 0, 0, 0, 0]) };
}

/// The number of consecutive checks after which sleeping processes count as idle: one may wake another
/// between two checks.
pub(crate) const IDLE_CHECKS: u32 = 3;

/// Returns the virtual id of a process.
pub(crate) fn to_virtual(process: i32) -> i32 {
    match kernel_ids().iter().rposition(|&started| started == process) {
        Some(at) if process > 0 => FIRST + at as i32,
        _ => process,
    }
}

/// Returns the kernel's id of a process.
pub(crate) fn to_real(number: i32) -> i32 {
    let at = usize::try_from(number.wrapping_sub(FIRST)).unwrap_or(usize::MAX);
    match kernel_ids().get(at) {
        // For a child that is gone, an id that no process has.
        Some(&process) if process > 0 => process,
        _ => number,
    }
}

/// Forgets a child after a wait if it no longer exists: the kernel may reuse its id.
pub(crate) fn forget_ended(process: i32) {
    stack::run_isolated(|| {
        let child = Children { kind: libc::P_PID, id: process, options: libc::WEXITED };
        if child.query(libc::WNOHANG).is_none()
            && let Some(at) = kernel_ids().iter().rposition(|&started| started == process)
        {
            kernel_ids()[at] = 0;
        }
    });
}

/// A set of children and of state changes, as `waitid` describes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Children {
    pub(crate) kind: u32,
    /// The kernel's id.
    pub(crate) id: i32,
    pub(crate) options: i32,
}

impl Children {
    /// All children.
    const ALL: Self = Self { kind: libc::P_ALL, id: 0, options: libc::WEXITED };

    fn query(self, options: i32) -> Option<i32> {
        // SAFETY: plain numbers, which the kernel fills in.
        let mut info: libc::siginfo_t = unsafe { core::mem::zeroed() };
        let options = (self.options | libc::WNOWAIT) & !libc::WNOHANG | options;
        let args = [self.kind as usize, self.id as usize, &raw mut info as usize, options as usize, 0, 0];
        // SAFETY: only a query: an ended child can still be waited for.
        let error = unsafe { sys::call(libc::SYS_waitid, args) };
        // SAFETY: the result describes a child or is all zeros.
        (error == 0).then(|| unsafe { info.si_pid() })
    }

    /// Returns whether a wait for them would return at once: one has changed state, or none is left.
    pub(crate) fn has_ended_child(self) -> bool {
        stack::run_isolated(|| self.query(libc::WNOHANG) != Some(0))
    }

    /// Waits until one has changed state; may return early.
    pub(crate) fn wait(self) {
        stack::run_isolated(|| {
            self.query(0);
        });
    }

    /// Waits until one has changed state, as long as the children seem busy: gives up when they and their
    /// descendants were asleep in `max_checks` consecutive checks. They may be waiting for other threads of this
    /// program.
    pub(crate) fn wait_while_busy(self, max_checks: u32) {
        stack::run_isolated(|| {
            let mut asleep = 0;
            while asleep < max_checks && !self.has_ended_child() {
                asleep = if self.has_busy_child() { 0 } else { asleep + 1 };
                sleep_briefly();
            }
        });
    }

    fn has_busy_child(self) -> bool {
        let busy = |&process: &i32| process > 0 && is_busy(process, MAX_GENERATIONS);
        match self.kind {
            libc::P_PID => busy(&self.id),
            _ => kernel_ids().iter().any(busy),
        }
    }
}

/// The time between two checks, in nanoseconds.
const CHECK_INTERVAL: u64 = 200_000;
/// The number of generations of processes that are checked.
const MAX_GENERATIONS: u32 = 6;

/// Returns whether a process or one of its descendants runs or is about to.
fn is_busy(process: i32, depth: u32) -> bool {
    any_task(process, &mut |task| {
        let mut room = [0u8; 512];
        // The state follows the name, which may contain anything.
        let stat = read(format_args!("/proc/{process}/task/{task}/stat\0"), &mut room);
        let state = stat.iter().rposition(|&byte| byte == b')').and_then(|at| stat.get(at + 2));
        if matches!(state, Some(b'R' | b'D')) {
            return true;
        }
        let children = read(format_args!("/proc/{process}/task/{task}/children\0"), &mut room);
        let mut children = children.split(|&byte| byte == b' ').filter_map(parse_number);
        depth > 0 && children.any(|child| is_busy(child, depth - 1))
    })
}

/// Returns whether the predicate holds for one of a process's threads.
fn any_task(process: i32, predicate: &mut dyn FnMut(i32) -> bool) -> bool {
    let Some(directory) = path(format_args!("/proc/{process}/task\0")).and_then(|path| OpenFile::new(&path))
    else {
        return false;
    };
    let mut room = [0u8; 2048];
    while let got @ 1.. = directory.list(&mut room) {
        let mut entries = &room[..got as usize];
        // An entry: inode and position (8 bytes each), its length (2), kind (1), name.
        while entries.len() > 19 {
            let len = usize::from(u16::from_le_bytes([entries[16], entries[17]]));
            if parse_number(until_zero(&entries[19..len])).is_some_and(&mut *predicate) {
                return true;
            }
            entries = &entries[len..];
        }
    }
    false
}

fn parse_number(digits: &[u8]) -> Option<i32> {
    let add = |number: i32, digit: &u8| digit.is_ascii_digit().then(|| number * 10 + i32::from(digit - b'0'));
    if digits.is_empty() { None } else { digits.iter().try_fold(0, add) }
}

fn path(path: fmt::Arguments<'_>) -> Option<[u8; 64]> {
    struct Path([u8; 64], usize);
    impl Write for Path {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            let end = self.1 + text.len();
            self.0.get_mut(self.1..end).ok_or(fmt::Error)?.copy_from_slice(text.as_bytes());
            self.1 = end;
            Ok(())
        }
    }
    let mut name = Path([0; 64], 0);
    name.write_fmt(path).ok().map(|()| name.0)
}

/// Reads a small file of the kernel.
fn read<'a>(name: fmt::Arguments<'_>, room: &'a mut [u8]) -> &'a [u8] {
    let read = path(name).and_then(|path| OpenFile::new(&path)).map_or(0, |file| file.read(room));
    &room[..read.max(0) as usize]
}

/// Returns whether this process has a child that may still act.
pub(crate) fn may_act() -> bool {
    stack::run_isolated(|| Children::ALL.query(libc::WNOHANG).is_some())
}
