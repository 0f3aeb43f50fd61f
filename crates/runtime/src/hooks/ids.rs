//! Process and thread ids that are the same in every run. The kernel's ids differ from run to run, and
//! programs use ids as random seeds and in names.
//!
//! The program under control and its children see it as process [`PROCESS`] and its threads as the ids that
//! follow. Functions that take an id accept these. Under `/proc` the process has its kernel id: `/proc/self`
//! works.

use crate::{children, real::real};
use core::{
    ffi::c_void,
    sync::atomic::{AtomicI32, Ordering},
};

/// Above every id that the kernel assigns, so that it names no other process by mistake.
pub(crate) const PROCESS: i32 = 5_000_000;

/// The id of the parent process. It names no process: the program must not reach the controller.
const PARENT: i32 = PROCESS - 1;

/// The kernel's id of the process under control; 0 while there is none. A forked child keeps its parent's.
static REAL_PROCESS: AtomicI32 = AtomicI32::new(0);

/// Enables the virtual ids for this process.
pub(crate) fn enable(process: i32) {
    REAL_PROCESS.store(process, Ordering::Relaxed);
}

/// Returns the id that the program sees.
pub(super) fn to_virtual(id: i32) -> i32 {
    if id > 0 && id == REAL_PROCESS.load(Ordering::Relaxed) { PROCESS } else { children::to_virtual(id) }
}

/// Returns the kernel's id for the id that the program passed; all its threads are one to the kernel. A
/// negative id is a process group.
pub(super) fn to_real(id: i32) -> i32 {
    let process = REAL_PROCESS.load(Ordering::Relaxed);
    let is_own_thread = |id: i32| process > 0 && (PROCESS..=PROCESS + i32::from(u16::MAX)).contains(&id);
    match id {
        _ if is_own_thread(id) => process,
        i32::MIN..0 if is_own_thread(id.wrapping_neg()) => -process,
        i32::MIN..0 => children::to_real(id.wrapping_neg()).wrapping_neg(),
        _ => children::to_real(id),
    }
}

/// Returns whether this process id is the program's own.
pub(super) fn is_own(id: i32) -> bool {
    id == PROCESS || (id > 0 && id == REAL_PROCESS.load(Ordering::Relaxed))
}

mod next {
    use super::*;
    real! {
        fn getpid() -> i32;
        fn getppid() -> i32;
        fn getpgrp() -> i32;
    }
}

#[unsafe(no_mangle)]
extern "C" fn getpid() -> i32 {
    // SAFETY: a query without side effects.
    to_virtual(unsafe { next::getpid() })
}

#[unsafe(no_mangle)]
extern "C" fn getppid() -> i32 {
    // SAFETY: a query without side effects.
    if getpid() == PROCESS { PARENT } else { to_virtual(unsafe { next::getppid() }) }
}

#[unsafe(no_mangle)]
extern "C" fn getpgrp() -> i32 {
    // SAFETY: a query without side effects.
    to_virtual(unsafe { next::getpgrp() })
}

/// Functions of one or more ids: lists which arguments are ids and whether the result is one.
macro_rules! take_ids {
    ($(fn $name:ident($($arg:ident: $type:ty),*) -> $ret:ty, $answer:ident, ids($($id:ident)*);)*) => {
        mod with_ids {
            use super::*;
            real! { $(fn $name($($arg: $type),*) -> $ret;)* }
        }
        $(
            #[unsafe(no_mangle)]
            unsafe extern "C-unwind" fn $name($($arg: $type),*) -> $ret {
                $(let $id = to_real($id as i32) as _;)*
                // SAFETY: passed on as received, except for the ids.
                $answer(unsafe { with_ids::$name($($arg),*) })
            }
        )*
    };
}

const fn unchanged<T: Copy>(answer: T) -> T {
    answer
}

take_ids! {
    fn killpg(group: i32, signal: i32) -> i32, unchanged, ids(group);
    fn getpgid(process: i32) -> i32, to_virtual, ids(process);
    fn getsid(process: i32) -> i32, to_virtual, ids(process);
    fn setpgid(process: i32, group: i32) -> i32, unchanged, ids(process group);
    fn getpriority(which: i32, who: u32) -> i32, unchanged, ids(who);
    fn setpriority(which: i32, who: u32, priority: i32) -> i32, unchanged, ids(who);
    fn sched_setaffinity(thread: i32, size: usize, set: *const c_void) -> i32, unchanged, ids(thread);
    fn sched_getaffinity(thread: i32, size: usize, set: *mut c_void) -> i32, unchanged, ids(thread);
    fn sched_setscheduler(thread: i32, policy: i32, parameter: *const c_void) -> i32, unchanged, ids(thread);
    fn sched_getscheduler(thread: i32) -> i32, unchanged, ids(thread);
    fn sched_setparam(thread: i32, parameter: *const c_void) -> i32, unchanged, ids(thread);
    fn sched_getparam(thread: i32, parameter: *mut c_void) -> i32, unchanged, ids(thread);
    fn sched_rr_get_interval(thread: i32, interval: *mut libc::timespec) -> i32, unchanged, ids(thread);
}
