//! Host names. The C library looks them up with sockets of its own, and leaves on its stack what differs from run
//! to run: the port of the netlink socket, which is the kernel's process id, times, and addresses of the machine.

use crate::stack;
use core::ffi::{c_char, c_int, c_void};

hooks! {
    fn getaddrinfo(
        node: *const c_char,
        service: *const c_char,
        hints: *const libc::addrinfo,
        found: *mut *mut libc::addrinfo
    ) -> c_int, |runtime, pc| {
        runtime.state.before_lookup(node);
        stack::run_on_spare_stack(|| real::getaddrinfo(node, service, hints, found))
    }

    fn gethostbyname(name: *const c_char) -> *mut c_void, |runtime, pc| {
        runtime.state.before_lookup(name);
        stack::run_on_spare_stack(|| real::gethostbyname(name))
    }

    fn gethostbyname2(name: *const c_char, family: c_int) -> *mut c_void, |runtime, pc| {
        runtime.state.before_lookup(name);
        stack::run_on_spare_stack(|| real::gethostbyname2(name, family))
    }

    fn gethostbyaddr(address: *const c_void, size: u32, family: c_int) -> *mut c_void, |runtime, pc| {
        stack::run_on_spare_stack(|| real::gethostbyaddr(address, size, family))
    }
}
