//! `unsnarl … --follow`: the user started a launcher, and the program to be controlled is one of those that
//! it starts. Each of them asks the controller at its start whether it is the one. If it is, it waits here:
//! the controller inspects how it was started and starts the same program under control.

use crate::sys;
use unsnarl_wire::FollowAnswer;

/// Asks the controller at the socket of this name; returns if the program runs uncontrolled.
pub(crate) fn request_verdict(name: &[u8]) {
    let Some(socket) = connect(name) else { return };
    let process = sys::process().to_le_bytes();
    let mut answer = 0u8;
    let transfer = |call, place: *const u8, size: usize| {
        // SAFETY: a local buffer of this size.
        unsafe { sys::call(call, [socket, place as usize, size, 0, 0, 0]) }
    };
    transfer(libc::SYS_write, process.as_ptr(), process.len());
    let place = &raw mut answer;
    if transfer(libc::SYS_read, place, 1) == 1 && answer == FollowAnswer::Wait as u8 {
        // Waits until the controller is done, or gone.
        while transfer(libc::SYS_read, place, 1) == -libc::EINTR as isize {}
        sys::exit(0);
    }
    // SAFETY: the runtime's descriptor.
    unsafe { sys::call(libc::SYS_close, [socket, 0, 0, 0, 0, 0]) };
}

fn connect(name: &[u8]) -> Option<usize> {
    // SAFETY: all zeros is a valid address.
    let mut address: libc::sockaddr_un = unsafe { core::mem::zeroed() };
    address.sun_family = libc::AF_UNIX as u16;
    // Behind a zero: an abstract name, which is no file.
    for (to, &from) in address.sun_path.get_mut(1..)?.iter_mut().zip(name) {
        *to = from as core::ffi::c_char;
    }
    let size = core::mem::offset_of!(libc::sockaddr_un, sun_path) + 1 + name.len();
    let kind = (libc::SOCK_STREAM | libc::SOCK_CLOEXEC) as usize;
    // SAFETY: a new socket, and an address of the given size.
    unsafe {
        let socket = sys::call(libc::SYS_socket, [libc::AF_UNIX as usize, kind, 0, 0, 0, 0]);
        let socket = usize::try_from(socket).ok()?;
        let connected = sys::call(libc::SYS_connect, [socket, &raw const address as usize, size, 0, 0, 0]);
        if connected == 0 {
            return Some(socket);
        }
        sys::call(libc::SYS_close, [socket, 0, 0, 0, 0, 0]);
    }
    None
}
