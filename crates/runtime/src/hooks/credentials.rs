//! Who the process is to the system: user and group ids.
//!
//! The kernel keeps them for each of its threads, so the C library has every thread change its own, by a signal, and waits
//! for all of them. Fibers have no kernel threads that could answer: there the one call for the carrier is all.

use crate::{context::Backend, state::Runtime, sys};

/// The call for the carrier alone, with the C library's way of telling of errors.
fn alone(number: i64, args: [usize; 3]) -> i32 {
    let [a, b, c] = args;
    // SAFETY: as the program asked; a list of groups is only read.
    let result = unsafe { sys::call(number, [a, b, c, 0, 0, 0]) };
    if result < 0 {
        sys::set_errno(-result as i32);
        return -1;
    }
    0
}

fn on_fibers(runtime: &Runtime) -> bool {
    runtime.state.backend() == Backend::Fibers
}

/// An id that stays as it is.
const SAME: usize = u32::MAX as usize;

macro_rules! credentials {
    ($(fn $name:ident($($arg:ident: $type:ty),*), $number:ident, [$($value:expr),*];)*) => {
        hooks! {
            $(fn $name($($arg: $type),*) -> i32, |runtime, pc| {
                if on_fibers(runtime) { alone(libc::$number, [$($value),*]) } else { real::$name($($arg),*) }
            })*
        }
    };
}

credentials! {
    fn setuid(user: u32), SYS_setuid, [user as usize, 0, 0];
    fn setgid(group: u32), SYS_setgid, [group as usize, 0, 0];
    fn seteuid(user: u32), SYS_setresuid, [SAME, user as usize, SAME];
    fn setegid(group: u32), SYS_setresgid, [SAME, group as usize, SAME];
    fn setreuid(own: u32, effective: u32), SYS_setreuid, [own as usize, effective as usize, 0];
    fn setregid(own: u32, effective: u32), SYS_setregid, [own as usize, effective as usize, 0];
    fn setresuid(own: u32, effective: u32, saved: u32), SYS_setresuid, [own as usize, effective as usize, saved as usize];
    fn setresgid(own: u32, effective: u32, saved: u32), SYS_setresgid, [own as usize, effective as usize, saved as usize];
    fn setgroups(count: usize, groups: *const u32), SYS_setgroups, [count, groups as usize, 0];
}
