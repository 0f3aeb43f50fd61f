//! User and group ids of the process.
//!
//! The kernel keeps them for each kernel thread. So the C library makes every thread change its own, by a
//! signal, and waits for all of them. Fibers have no kernel threads that could respond: there one call for
//! the carrier suffices.

use crate::{context::ThreadBackend, state::Runtime, sys};
use alloc::vec::Vec;
use core::ffi::c_char;

unsafe extern "C" {
    fn getgrouplist(user: *const c_char, group: u32, groups: *mut u32, count: *mut i32) -> i32;
}

/// Makes the call for the carrier only, and reports errors as the C library does.
fn call_for_carrier(number: i64, args: [usize; 3]) -> i32 {
    let [a, b, c] = args;
    // SAFETY: the program's call; a list of groups is only read.
    let result = unsafe { sys::call(number, [a, b, c, 0, 0, 0]) };
    if result < 0 {
        sys::set_errno(-result as i32);
        return -1;
    }
    0
}

fn uses_fibers(runtime: &Runtime) -> bool {
    runtime.state.backend() == ThreadBackend::Fibers
}

/// Returns the groups that the system's files list for this user, and `group`; at most as many as the kernel
/// accepts.
unsafe fn groups_of(user: *const c_char, group: u32) -> Vec<u32> {
    const MAX_GROUPS: i32 = 1 << 16;
    let mut count = 64;
    loop {
        let room = count;
        let mut groups = alloc::vec![0; room as usize];
        // SAFETY: the caller passes a C string; the buffer has as much room as `count` says.
        let fits = unsafe { getgrouplist(user, group, groups.as_mut_ptr(), &raw mut count) } >= 0;
        if fits || room >= MAX_GROUPS {
            groups.truncate(count.clamp(0, room) as usize);
            return groups;
        }
        count = count.max(room * 2).min(MAX_GROUPS);
    }
}

/// An id that does not change.
const UNCHANGED: usize = u32::MAX as usize;

macro_rules! credentials {
    ($(fn $name:ident($($arg:ident: $type:ty),*), $number:ident, [$($value:expr),*];)*) => {
        hooks! {
            fn initgroups(user: *const c_char, group: u32) -> i32, |runtime, pc| {
                if uses_fibers(runtime) {
                    let groups = groups_of(user, group);
                    call_for_carrier(libc::SYS_setgroups, [groups.len(), groups.as_ptr() as usize, 0])
                } else {
                    real::initgroups(user, group)
                }
            }

            $(fn $name($($arg: $type),*) -> i32, |runtime, pc| {
                if uses_fibers(runtime) { call_for_carrier(libc::$number, [$($value),*]) } else { real::$name($($arg),*) }
            })*
        }
    };
}

credentials! {
    fn setuid(user: u32), SYS_setuid, [user as usize, 0, 0];
    fn setgid(group: u32), SYS_setgid, [group as usize, 0, 0];
    fn seteuid(user: u32), SYS_setresuid, [UNCHANGED, user as usize, UNCHANGED];
    fn setegid(group: u32), SYS_setresgid, [UNCHANGED, group as usize, UNCHANGED];
    fn setreuid(own: u32, effective: u32), SYS_setreuid, [own as usize, effective as usize, 0];
    fn setregid(own: u32, effective: u32), SYS_setregid, [own as usize, effective as usize, 0];
    fn setresuid(own: u32, effective: u32, saved: u32), SYS_setresuid, [own as usize, effective as usize, saved as usize];
    fn setresgid(own: u32, effective: u32, saved: u32), SYS_setresgid, [own as usize, effective as usize, saved as usize];
    fn setgroups(count: usize, groups: *const u32), SYS_setgroups, [count, groups as usize, 0];
}
