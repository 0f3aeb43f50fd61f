//! Sockets: receiving, sending, accepting, connecting. Their creation is in [`super::descriptor`].

use super::{
    buffers,
    io::{Answer, Cancelled, Io, finish, message, reading, writing},
};
use crate::{
    descriptors::{self, Peer, SocketKind},
    input::OutputBuffers,
    state::Runtime,
    sys,
    turn::Turn,
};
use core::ffi::{c_char, c_void};
use unsnarl_model::{ChannelKind, Flags, Op};

type Buffer = *mut c_void;
type Bytes = *const c_void;
type Address = *mut c_void;
type Message = libc::msghdr;
type Messages = libc::mmsghdr;

const fn receiving(fd: i32, flags: i32, pc: u64) -> Io {
    // A read of the error queue waits for a queued error, regardless of readable data.
    let events = if flags & libc::MSG_ERRQUEUE != 0 { libc::POLLERR } else { libc::POLLIN };
    Io { events, at_once: flags & libc::MSG_DONTWAIT != 0, ..reading(fd, pc) }
}

const fn sending(fd: i32, flags: i32, pc: u64) -> Io {
    Io { at_once: flags & libc::MSG_DONTWAIT != 0, ..writing(fd, pc) }
}

/// Returns the memory of an address result: the buffer and the length.
unsafe fn address_places(address: usize, len: *const u32) -> [(usize, usize); 2] {
    // SAFETY: the program's length.
    let room = if address == 0 || len.is_null() { 0 } else { (unsafe { *len }) as usize };
    [(address, room), (if address == 0 { 0 } else { len as usize }, size_of::<u32>())]
}

/// Receives bytes; with `MSG_WAITALL`, waits until the buffer is full.
unsafe fn receive(runtime: &mut Runtime, io: Io, [place, size, flags, from, len]: [usize; 5]) -> Answer {
    let all = flags as i32 & libc::MSG_WAITALL != 0 && flags as i32 & libc::MSG_PEEK == 0 && !io.at_once;
    let flags = flags & !(libc::MSG_WAITALL as usize);
    let mut got = 0;
    loop {
        let (at, room) = (place + got as usize, size - got as usize);
        let vector = [libc::iovec { iov_base: at as Buffer, iov_len: room }];
        // SAFETY: the program passed these addresses for the results.
        let whole = unsafe { address_places(from, len as *const u32) };
        let places = OutputBuffers { counted: &vector, unit: 1, whole: &whole };
        let args = [io.fd as usize, at, room, flags, from, len];
        // SAFETY: the program's buffer and addresses.
        let result = unsafe { runtime.io(io, libc::SYS_recvfrom, args, &places) }?;
        if result <= 0 || !all {
            return Ok(if got > 0 { got } else { result });
        }
        got += result;
        if got as usize >= size {
            return Ok(got);
        }
    }
}

/// Receives bytes, with the access to the program's buffer.
unsafe fn receive_into(runtime: &mut Runtime, io: Io, args: [usize; 5]) -> Answer {
    let [place, size, ..] = args;
    // SAFETY: the program's buffer.
    buffers::fill(runtime, (place as Buffer, size), false, io.pc, |runtime| unsafe {
        receive(runtime, io, args)
    })
}

/// Accepts a connection.
unsafe fn accept_one(
    runtime: &mut Runtime,
    fd: i32,
    address: Address,
    len: *mut u32,
    flags: i32,
    pc: u64,
) -> Answer {
    let io = Io { op: Op::FdAccept, ..reading(fd, pc) };
    let Some(on) = runtime.state.descriptors.lookup(fd) else { return Ok(-libc::ENOTSOCK as isize) };
    let turn = runtime.wait_for_io(&io, on);
    if turn != Turn::Go {
        let error = -if turn == Turn::Interrupted { libc::EINTR } else { libc::EAGAIN } as isize;
        runtime.log_io(&io, on, turn.flags(), error);
        return if turn == Turn::Cancelled { Err(Cancelled) } else { Ok(error) };
    }
    let args = [fd as usize, address as usize, len as usize, flags as usize, 0, 0];
    // SAFETY: the program passed these addresses for the results.
    let accepted = unsafe {
        let whole = address_places(address as usize, len);
        let places = OutputBuffers { whole: &whole, ..OutputBuffers::NONE };
        runtime.answer((Op::FdAccept, on, turn), 0, &places, || sys::call(libc::SYS_accept4, args))
    };
    if accepted >= 0 {
        if runtime.replays_inputs(on) {
            descriptors::open_placeholder(accepted as i32, SocketKind::of(fd), flags);
        }
        runtime.state.descriptors.add(accepted as i32, ChannelKind::Socket, Peer::Environment);
    }
    runtime.log_io(&io, on, Flags::NONE, accepted);
    Ok(accepted)
}

/// Connects: starts the connection without blocking and waits until it is made.
unsafe fn make_connection(
    runtime: &mut Runtime,
    fd: i32,
    address: *const c_void,
    len: u32,
    pc: u64,
) -> Answer {
    let io = Io { op: Op::FdConnect, ..writing(fd, pc) };
    // SAFETY: the program's address.
    unsafe { runtime.state.before_contact(address, len) };
    let args = [fd as usize, address as usize, len as usize, 0, 0, 0];
    let Some(on) = runtime.state.descriptors.lookup(fd) else {
        // SAFETY: the program's address.
        return Ok(unsafe { sys::call(libc::SYS_connect, args) });
    };
    let at_once = descriptors::is_nonblocking(fd);
    runtime.turn(Op::FdConnect, on.channel.as_addr() as usize, pc);
    // SAFETY: the program's address.
    let begin = || unsafe { sys::call(libc::SYS_connect, args) };
    let attempt = |runtime: &mut Runtime| {
        // SAFETY: nothing is written to the program's memory.
        unsafe {
            runtime.answer((Op::FdConnect, on, Turn::Go), 0, &OutputBuffers::NONE, || {
                descriptors::without_blocking(fd, begin)
            })
        }
    };
    let mut result = attempt(runtime);
    let in_progress = result == -libc::EINPROGRESS as isize;
    let full = result == -libc::EAGAIN as isize;
    if at_once || !(in_progress || full) {
        runtime.log_io(&io, on, Flags::NONE, result);
        return Ok(result);
    }
    if full {
        // A local socket whose queue is full: there is no notification when it has room.
        while result == -libc::EAGAIN as isize {
            runtime.log_io(&io, on, Flags::NONE, result);
            runtime.turn(Op::FdConnect, on.channel.as_addr() as usize, pc);
            result = attempt(runtime);
        }
        runtime.log_io(&io, on, Flags::NONE, result);
        return Ok(result);
    }
    runtime.log_io(&io, on, Flags::NONE, 0);
    let turn = runtime.wait_for_io(&io, on);
    if turn == Turn::Interrupted {
        // The connection is still made; the program may learn of it by `poll`.
        runtime.log_io(&io, on, turn.flags(), -libc::EINTR as isize);
        return Ok(-libc::EINTR as isize);
    }
    let job = || -if turn == Turn::Go { socket_error(fd) } else { libc::EINPROGRESS } as isize;
    // SAFETY: nothing is written to the program's memory.
    let result = unsafe { runtime.answer((Op::FdConnect, on, turn), 1, &OutputBuffers::NONE, job) };
    runtime.log_io(&io, on, turn.flags(), result);
    if turn == Turn::Cancelled { Err(Cancelled) } else { Ok(result) }
}

/// Returns the name of a socket or its peer. It is no event, but an input from outside: the kernel chooses
/// port numbers.
unsafe extern "C-unwind" fn name_of(
    runtime: &mut Runtime,
    call: i64,
    fd: i32,
    address: Address,
    len: *mut u32,
) -> i32 {
    let args = [fd as usize, address as usize, len as usize, 0, 0, 0];
    // SAFETY: the program passed these addresses for the results.
    unsafe {
        let job = || sys::call(call, args);
        let Some(on) = runtime.state.descriptors.lookup(fd) else { return finish(Ok(job())) as i32 };
        let whole = address_places(address as usize, len);
        let places = OutputBuffers { whole: &whole, ..OutputBuffers::NONE };
        finish(Ok(runtime.answer((Op::FdOpen, on, Turn::Go), call as usize, &places, job))) as i32
    }
}

/// Asks whether the next byte is at the mark of urgent data.
const SIOCATMARK: u64 = 0x8905;

/// Returns the number by which the result of such a call for this option is recorded.
const fn option(call: i64, level: i32, name: i32) -> usize {
    (call as usize) << 48 | (level as u32 as usize & 0xff_ffff) << 24 | name as usize & 0xff_ffff
}

/// Returns the pending error of a socket.
fn socket_error(fd: i32) -> i32 {
    let (mut error, mut size) = (0i32, size_of::<i32>());
    let (level, option) = (libc::SOL_SOCKET as usize, libc::SO_ERROR as usize);
    let args = [fd as usize, level, option, &raw mut error as usize, &raw mut size as usize, 0];
    // SAFETY: there is room for the result and its size.
    unsafe { sys::call(libc::SYS_getsockopt, args) };
    error
}

/// Returns the path of a local socket's address, if it has one.
unsafe fn path_of(address: *const c_void, len: u32) -> Option<*const c_char> {
    let path = address.wrapping_byte_add(size_of::<libc::sa_family_t>()).cast::<c_char>();
    if address.is_null() || len as usize <= size_of::<libc::sa_family_t>() {
        return None;
    }
    // SAFETY: the program's address, which has more bytes than the family.
    let (family, first) = unsafe { (*address.cast::<libc::sa_family_t>(), *path) };
    (i32::from(family) == libc::AF_UNIX && first != 0).then_some(path)
}

hooks! {
    fn recv(fd: i32, place: Buffer, size: usize, flags: i32) -> isize, |runtime, pc| {
        finish(receive_into(runtime, receiving(fd, flags, pc), [place as usize, size, flags as usize, 0, 0]))
    }

    fn __recv_chk(fd: i32, place: Buffer, size: usize, room: usize, flags: i32) -> isize, |runtime, pc| {
        if size > room { return real::__recv_chk(fd, place, size, room, flags) }
        finish(receive_into(runtime, receiving(fd, flags, pc), [place as usize, size, flags as usize, 0, 0]))
    }

    fn recvmsg(fd: i32, message: *mut Message, flags: i32) -> isize, |runtime, pc| {
        let m = &*message;
        let room = if m.msg_iovlen > 0 { core::slice::from_raw_parts(m.msg_iov, m.msg_iovlen) } else { &[] };
        let whole = [
            (m.msg_name as usize, m.msg_namelen as usize),
            (m.msg_control as usize, m.msg_controllen),
            (message as usize, size_of::<Message>()),
        ];
        let places = OutputBuffers { counted: room, unit: 1, whole: &whole };
        let args = [fd as usize, message as usize, flags as usize, 0, 0, 0];
        let answer = runtime.io(receiving(fd, flags, pc), libc::SYS_recvmsg, args, &places);
        if let Ok(bytes) = answer { buffers::filled(runtime, room.as_ptr(), room.len(), pc, bytes) }
        finish(answer)
    }

    fn recvmmsg(fd: i32, messages: *mut Messages, count: u32, flags: i32, time: *const libc::timespec) -> i32, |runtime, pc| {
        if runtime.state.descriptors.lookup(fd).is_some_and(|on| on.peer != Peer::Own) {
            // One message at a time, which is allowed: the input is recorded for each.
            if count == 0 { return 0 }
            let got = recvmsg(fd, &raw mut (*messages).msg_hdr, flags & !libc::MSG_WAITFORONE, pc);
            if got >= 0 { (*messages).msg_len = got as u32 }
            return if got < 0 { -1 } else { 1 };
        }
        // Returns the messages that are there when the first one is.
        let flags = flags | libc::MSG_WAITFORONE;
        let args = [fd as usize, messages as usize, count as usize, flags as usize, 0, 0];
        finish(runtime.io(receiving(fd, flags, pc), libc::SYS_recvmmsg, args, &OutputBuffers::NONE)) as i32
    }

    fn send(fd: i32, bytes: Bytes, size: usize, flags: i32) -> isize, |runtime, pc| {
        let vector = libc::iovec { iov_base: bytes.cast_mut(), iov_len: size };
        buffers::read_by_kernel(runtime, &raw const vector, 1, pc);
        finish(runtime.write(sending(fd, flags, pc), &message(&raw const vector, 1), flags))
    }

    fn sendmsg(fd: i32, message: *const Message, flags: i32) -> isize, |runtime, pc| {
        runtime.state.before_contact((*message).msg_name, (*message).msg_namelen);
        buffers::read_by_kernel(runtime, (*message).msg_iov, (*message).msg_iovlen, pc);
        finish(runtime.write(sending(fd, flags, pc), &*message, flags))
    }

    fn sendmmsg(fd: i32, messages: *mut Messages, count: u32, flags: i32) -> i32, |runtime, pc| {
        let mut sent = 0;
        while sent < count as usize {
            let one = &mut *messages.add(sent);
            let result = finish(runtime.write(sending(fd, flags, pc), &one.msg_hdr, flags));
            if result < 0 { return if sent > 0 { sent as i32 } else { -1 } }
            one.msg_len = result as u32;
            sent += 1;
        }
        sent as i32
    }

    fn accept(fd: i32, address: Address, len: *mut u32) -> i32, |runtime, pc| {
        finish(accept_one(runtime, fd, address, len, 0, pc)) as i32
    }

    fn accept4(fd: i32, address: Address, len: *mut u32, flags: i32) -> i32, |runtime, pc| {
        finish(accept_one(runtime, fd, address, len, flags, pc)) as i32
    }

    fn getsockname(fd: i32, address: Address, len: *mut u32) -> i32, |runtime, pc| {
        name_of(runtime, libc::SYS_getsockname, fd, address, len)
    }

    fn getpeername(fd: i32, address: Address, len: *mut u32) -> i32, |runtime, pc| {
        name_of(runtime, libc::SYS_getpeername, fd, address, len)
    }

    fn getsockopt(fd: i32, level: i32, name: i32, value: Buffer, len: *mut u32) -> i32, |runtime, pc| {
        let args = [fd as usize, level as usize, name as usize, value as usize, len as usize, 0];
        let whole = address_places(value as usize, len);
        let places = OutputBuffers { whole: &whole, ..OutputBuffers::NONE };
        let requested = option(libc::SYS_getsockopt, level, name);
        finish(Ok(runtime.query(fd, requested, &places, || sys::call(libc::SYS_getsockopt, args)))) as i32
    }

    fn setsockopt(fd: i32, level: i32, name: i32, value: Bytes, len: u32) -> i32, |runtime, pc| {
        let args = [fd as usize, level as usize, name as usize, value as usize, len as usize, 0];
        let requested = option(libc::SYS_setsockopt, level, name);
        finish(Ok(runtime.query(fd, requested, &OutputBuffers::NONE, || sys::call(libc::SYS_setsockopt, args)))) as i32
    }

    fn bind(fd: i32, address: *const c_void, len: u32) -> i32, |runtime, pc| {
        if let Some(path) = path_of(address, len) {
            runtime.prepare_creation(path);
        }
        runtime.state.before_bind(address, len);
        let call = || sys::call(libc::SYS_bind, [fd as usize, address as usize, len as usize, 0, 0, 0]);
        let result = runtime.query(fd, libc::SYS_bind as usize, &OutputBuffers::NONE, call);
        if result == 0 { runtime.state.after_bind(fd) }
        finish(Ok(result)) as i32
    }

    fn listen(fd: i32, backlog: i32) -> i32, |runtime, pc| {
        let call = || sys::call(libc::SYS_listen, [fd as usize, backlog as usize, 0, 0, 0, 0]);
        let result = runtime.query(fd, libc::SYS_listen as usize, &OutputBuffers::NONE, call);
        if result == 0 { runtime.state.after_bind(fd) }
        finish(Ok(result)) as i32
    }

    fn ioctl(fd: i32, request: u64, argument: usize) -> i32, |runtime, pc| {
        let call = || sys::call(libc::SYS_ioctl, [fd as usize, request as usize, argument, 0, 0, 0]);
        let whole = [(argument, size_of::<i32>())];
        let places = match request {
            libc::FIONREAD | libc::TIOCOUTQ | SIOCATMARK => OutputBuffers { whole: &whole, ..OutputBuffers::NONE },
            _ => return finish(Ok(call())) as i32,
        };
        finish(Ok(runtime.query(fd, request as usize, &places, call))) as i32
    }

    fn connect(fd: i32, address: *const c_void, len: u32) -> i32, |runtime, pc| {
        finish(make_connection(runtime, fd, address, len, pc)) as i32
    }
}

mod next {
    use super::*;
    crate::real::real! {
        fn recvfrom(fd: i32, place: Buffer, size: usize, flags: i32, from: Address, len: *mut u32) -> isize;
        fn sendto(fd: i32, bytes: Bytes, size: usize, flags: i32, to: Address, len: u32) -> isize;
    }
}

six_arguments!(recvfrom, receive_from);
six_arguments!(sendto, send_to);

#[allow(clippy::too_many_arguments, reason = "the signature of the C function")]
unsafe extern "C-unwind" fn receive_from(
    fd: i32,
    place: Buffer,
    size: usize,
    flags: i32,
    from: Address,
    len: *mut u32,
    pc: u64,
) -> isize {
    // SAFETY: the program keeps the contract of the function that it called.
    unsafe {
        let Some(runtime) = Runtime::enter() else {
            return next::recvfrom(fd, place, size, flags, from, len);
        };
        let args = [place as usize, size, flags as usize, from as usize, len as usize];
        finish(receive_into(runtime, receiving(fd, flags, pc), args))
    }
}

#[allow(clippy::too_many_arguments, reason = "the signature of the C function")]
unsafe extern "C-unwind" fn send_to(
    fd: i32,
    bytes: Bytes,
    size: usize,
    flags: i32,
    to: Address,
    len: u32,
    pc: u64,
) -> isize {
    // SAFETY: as above.
    unsafe {
        let Some(runtime) = Runtime::enter() else {
            return next::sendto(fd, bytes, size, flags, to, len);
        };
        runtime.state.before_contact(to, len);
        let vector = libc::iovec { iov_base: bytes.cast_mut(), iov_len: size };
        buffers::read_by_kernel(runtime, &raw const vector, 1, pc);
        let mut message = message(&raw const vector, 1);
        (message.msg_name, message.msg_namelen) = (to, len);
        finish(runtime.write(sending(fd, flags, pc), &message, flags))
    }
}
