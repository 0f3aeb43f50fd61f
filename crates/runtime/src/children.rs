//! The program's child processes: the numbers by which the program knows them, and who of them ended.
//!
//! The kernel's numbers differ from run to run. So the program sees other ones, which follow each other in the order in which the
//! children were started, and functions that take a process id take these.

use crate::{files::OpenFile, log::until_zero, stack, state::Runtime, sys};
use alloc::vec::Vec;
use core::{
    cell::UnsafeCell,
    fmt::{self, Write},
    sync::atomic::{AtomicU32, Ordering},
};

/// The first child's number: beyond those of the process and its threads, and of all that the kernel gives.
const FIRST: i32 = 5_100_000;

/// The kernel's numbers of the children, in the order of their start; 0 of those that are gone.
struct Table(UnsafeCell<Vec<i32>>);

// SAFETY: reached by the running thread only.
unsafe impl Sync for Table {}

static STARTED: Table = Table(UnsafeCell::new(Vec::new()));

fn started() -> &'static mut Vec<i32> {
    // SAFETY: the running thread only, and nobody keeps the reference.
    unsafe { &mut *STARTED.0.get() }
}

/// A child was started, with this number of the kernel's; the one that the program sees.
pub(crate) fn add(process: i32) -> i32 {
    started().push(process);
    FIRST + started().len() as i32 - 1
}

/// In the child that the next call of [`add`] would tell of: that is who we are, and under nobody's control.
pub(crate) fn become_child() {
    if Runtime::interrupted().is_some() {
        add(sys::process());
        Runtime::abandon();
    }
}

/// Has a child under nobody's control before any of the program's own handlers of fork runs in it, whoever forks.
pub(crate) fn expect() {
    // SAFETY: a handler of the right kind.
    unsafe { libc::pthread_atfork(None, None, Some(forked)) };
}

unsafe extern "C" fn forked() {
    become_child();
}

/// Lets the children do what they can do by themselves: what they have sent us then, and who ended, does not depend on how fast they
/// are. For those that are always busy there is only so much time in a run.
pub(crate) fn settle() {
    static LEFT: AtomicU32 = AtomicU32::new(20_000);
    let mut asleep = 0;
    while asleep < LOOKS && started().iter().any(|&process| process > 0) {
        if started().iter().any(|&process| process > 0 && is_busy(process, DEPTH)) {
            asleep = 0;
            let left = LEFT.load(Ordering::Relaxed);
            if left == 0 {
                return;
            }
            LEFT.store(left - 1, Ordering::Relaxed);
        } else {
            asleep += 1;
        }
        nap();
    }
}

fn nap() {
    let time = crate::clock::timespec(NAP);
    // SAFETY: sleeps only.
    unsafe { sys::call(libc::SYS_nanosleep, [&raw const time as usize, 0, 0, 0, 0, 0]) };
}

/// Processes that are found asleep so many times in a row are taken to be: one may wake another in the moment between two looks.
pub(crate) const LOOKS: u32 = 3;

/// The number that the program sees.
pub(crate) fn to_virtual(process: i32) -> i32 {
    match started().iter().rposition(|&started| started == process) {
        Some(at) if process > 0 => FIRST + at as i32,
        _ => process,
    }
}

/// The kernel's number.
pub(crate) fn to_real(number: i32) -> i32 {
    let at = usize::try_from(number.wrapping_sub(FIRST)).unwrap_or(usize::MAX);
    match started().get(at) {
        // Of one that is gone, a number that nobody has.
        Some(&process) if process > 0 => process,
        _ => number,
    }
}

/// A child was waited for: if it is no more, its number may come to mean somebody else.
pub(crate) fn forget_ended(process: i32) {
    stack::run_isolated(|| {
        let child = Children { kind: libc::P_PID, id: process, options: libc::WEXITED };
        if child.query(libc::WNOHANG).is_none()
            && let Some(at) = started().iter().rposition(|&started| started == process)
        {
            started()[at] = 0;
        }
    });
}

/// Some children, as `waitid` describes them, and what of them is of interest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Children {
    pub(crate) kind: u32,
    /// By the kernel's number.
    pub(crate) id: i32,
    pub(crate) options: i32,
}

impl Children {
    /// All of them.
    const ALL: Self = Self { kind: libc::P_ALL, id: 0, options: libc::WEXITED };

    fn query(self, options: i32) -> Option<i32> {
        // SAFETY: plain numbers; the kernel fills them in.
        let mut info: libc::siginfo_t = unsafe { core::mem::zeroed() };
        let options = (self.options | libc::WNOWAIT) & !libc::WNOHANG | options;
        let args = [self.kind as usize, self.id as usize, &raw mut info as usize, options as usize, 0, 0];
        // SAFETY: asks only: whoever ended can still be waited for.
        let error = unsafe { sys::call(libc::SYS_waitid, args) };
        // SAFETY: of a child, or all zeros.
        (error == 0).then(|| unsafe { info.si_pid() })
    }

    /// Whether a wait for them would come back at once: there is one to tell of, or none to wait for.
    pub(crate) fn have_news(self) -> bool {
        stack::run_isolated(|| self.query(libc::WNOHANG) != Some(0))
    }

    /// Waits until there are news, or for no reason less long.
    pub(crate) fn wait(self) {
        stack::run_isolated(|| {
            self.query(0);
        });
    }

    /// Waits until there are news, as long as the children seem to do something: gives up when they and theirs were found asleep so
    /// many times in a row. They may wait for what only our other threads can do.
    pub(crate) fn wait_while_busy(self, most: u32) {
        stack::run_isolated(|| {
            let mut asleep = 0;
            while asleep < most && !self.have_news() {
                asleep = if self.are_busy() { 0 } else { asleep + 1 };
                nap();
            }
        });
    }

    fn are_busy(self) -> bool {
        let busy = |&process: &i32| process > 0 && is_busy(process, DEPTH);
        match self.kind {
            libc::P_PID => busy(&self.id),
            _ => started().iter().any(busy),
        }
    }
}

/// How long to wait before looking again, in nanoseconds.
const NAP: u64 = 200_000;
/// How many generations of processes are looked at.
const DEPTH: u32 = 6;

/// Whether a process, or one that it started, runs or is about to.
fn is_busy(process: i32, depth: u32) -> bool {
    each_task(process, &mut |task| {
        let mut room = [0u8; 512];
        // After the name, which may hold anything, comes the state.
        let stat = read(format_args!("/proc/{process}/task/{task}/stat\0"), &mut room);
        let state = stat.iter().rposition(|&byte| byte == b')').and_then(|at| stat.get(at + 2));
        if matches!(state, Some(b'R' | b'D')) {
            return true;
        }
        let children = read(format_args!("/proc/{process}/task/{task}/children\0"), &mut room);
        let mut children = children.split(|&byte| byte == b' ').filter_map(number);
        depth > 0 && children.any(|child| is_busy(child, depth - 1))
    })
}

/// Whether one of a process's threads is as the question asks.
fn each_task(process: i32, question: &mut dyn FnMut(i32) -> bool) -> bool {
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
            if number(until_zero(&entries[19..len])).is_some_and(&mut *question) {
                return true;
            }
            entries = &entries[len..];
        }
    }
    false
}

fn number(digits: &[u8]) -> Option<i32> {
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

/// What is in a small file of the kernel's.
fn read<'a>(name: fmt::Arguments<'_>, room: &'a mut [u8]) -> &'a [u8] {
    let read = path(name).and_then(|path| OpenFile::new(&path)).map_or(0, |file| file.read(room));
    &room[..read.max(0) as usize]
}

/// Whether a child of this process may still do something.
pub(crate) fn are_there() -> bool {
    stack::run_isolated(|| Children::ALL.query(libc::WNOHANG).is_some())
}
