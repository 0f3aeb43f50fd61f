//! Reads and writes that can block: pipes, sockets, event counters, terminals.
//!
//! The gate of such an operation asks the kernel whether it would block; the real call is made when it would
//! not. Operations on files never block; while several threads are alive, they are events on the file
//! ([`super::file`]).

use super::{buffers, cancel::exit_cancelled};
use crate::{
    access, children,
    descriptors::{Descriptor, Peer, is_nonblocking, ready_now, without_blocking},
    gate::Gate,
    input::OutputBuffers,
    stack,
    state::Runtime,
    sys,
    thread::Pending,
    turn::Turn,
};
use core::{cell::UnsafeCell, ffi::c_void};
use unsnarl_model::{ChannelKind, FileCall, Flags, Op, Order};

/// Data are written to a file at the position of its descriptor.
const FILE_WRITE: (Op, FileCall) = (Op::FileWrite, FileCall::Position);

type Buffer = *mut c_void;
type Bytes = *const c_void;
pub(super) type Vector = libc::iovec;

/// An operation on one descriptor.
#[derive(Clone, Copy)]
pub(super) struct Io {
    pub(super) op: Op,
    pub(super) fd: i32,
    /// The events that `poll` reports when the operation is possible.
    pub(super) events: i16,
    /// True if the operation fails instead of waiting.
    pub(super) at_once: bool,
    pub(super) pc: u64,
}

/// The thread was cancelled while it waited.
pub(super) struct Cancelled;

/// The result of the C function.
pub(super) type Answer = Result<isize, Cancelled>;

/// Converts a kernel result to the convention of C functions.
#[allow(improper_ctypes_definitions, reason = "called only from Rust; the ABI lets it unwind")]
pub(super) extern "C-unwind" fn finish(answer: Answer) -> isize {
    match answer {
        Ok(result @ -4095..0) => {
            sys::set_errno(-result as i32);
            -1
        }
        Ok(result) => result,
        Err(Cancelled) => exit_cancelled(),
    }
}

impl Runtime {
    /// Logs the result of an operation.
    pub(super) fn log_io(&mut self, io: &Io, on: Descriptor, flags: Flags, result: isize) {
        let failed = if result < 0 { Flags::FAILED } else { Flags::NONE };
        let access = (on.channel.as_addr() as usize, u64::from(io.fd as u32), Order::Relaxed);
        self.log_access(io.op, flags | failed, io.pc, access, result.unsigned_abs() as u64);
    }

    /// Waits until the operation is possible, unless it must fail instead.
    pub(super) fn wait_for_io(&mut self, io: &Io, on: Descriptor) -> Turn {
        if io.at_once || is_nonblocking(io.fd) {
            self.try_turn(io.op, on.channel.as_addr() as usize, io.pc);
            return Turn::Go;
        }
        let deadline = stack::run_isolated(|| {
            if self.replays_inputs(on) { self.replayed_wait_limit() } else { self.wait_limit(io, on) }
        });
        let turn = self.await_descriptors(io.op, on, io.pc, deadline, &[(io.fd, io.events)]);
        if turn != Turn::TimedOut {
            // This deadline is the socket's, which a replayed wait does not know.
            self.state.unmark_bounded();
        }
        turn
    }

    /// Waits until one of these descriptors is ready.
    pub(super) fn await_descriptors(
        &mut self,
        op: Op,
        on: Descriptor,
        pc: u64,
        deadline: u64,
        fds: &[(i32, i16)],
    ) -> Turn {
        let awaited = &mut self.state.me().awaited;
        awaited.clear();
        awaited
            .extend(fds.iter().map(|&(fd, events)| UnsafeCell::new(libc::pollfd { fd, events, revents: 0 })));
        self.await_listed(op, on, pc, deadline)
    }

    /// Waits until one of the descriptors in the thread's list is ready.
    pub(super) fn await_listed(&mut self, op: Op, on: Descriptor, pc: u64, deadline: u64) -> Turn {
        let gate = if self.replays_inputs(on) { Gate::Input } else { Gate::Descriptors };
        if gate == Gate::Descriptors && on.peer == Peer::Children {
            stack::run_isolated(children::settle);
        }
        let addr = on.channel.as_addr();
        self.wait_turn(Pending { op, pc, addr, gate, deadline, cancellable: true })
    }

    /// Returns whether the plan supplies the results for this descriptor.
    pub(super) fn replays_inputs(&self, on: Descriptor) -> bool {
        on.peer != Peer::Own && self.state.log.replays_inputs()
    }

    /// Returns the time limit of a replayed wait: if the recorded wait timed out, this one does too, whatever
    /// the socket's timeout is.
    fn replayed_wait_limit(&self) -> u64 {
        if self.state.next_timed_out() { self.state.clock.now() + 1 } else { u64::MAX }
    }

    /// Performs an operation or, for operations on the environment, takes the result from the plan if the run
    /// replays its inputs.
    ///
    /// # Safety
    /// The contract of the job; `places` describes the memory it writes to.
    #[inline(never)]
    pub(super) unsafe fn answer(
        &mut self,
        (op, on, turn): (Op, Descriptor, Turn),
        requested: usize,
        places: &OutputBuffers<'_>,
        job: impl FnOnce() -> isize,
    ) -> isize {
        if on.peer == Peer::Own {
            return job();
        }
        // SAFETY: the caller's contract.
        stack::run_isolated(|| unsafe {
            let result = if self.state.log.replays_inputs() {
                self.state
                    .replay_input(op, requested, places)
                    .unwrap_or_else(|| crate::end::lacks_input(&self.state))
            } else {
                job()
            };
            self.state.record(op, turn == Turn::TimedOut, requested, result, places);
            result
        })
    }

    /// Makes a call that queries or configures a descriptor. It is no event, but its result is an input
    /// from outside. A replay makes the call too, on the descriptor that stands for the recorded one, and returns
    /// the recorded result. A recording of an older version has none.
    ///
    /// # Safety
    /// The contract of the job; `places` describes the memory it writes to.
    #[inline(never)]
    pub(super) unsafe fn query(
        &mut self,
        fd: i32,
        requested: usize,
        places: &OutputBuffers<'_>,
        job: impl FnOnce() -> isize,
    ) -> isize {
        let Some(on) = self.state.descriptors.lookup(fd).filter(|on| on.peer != Peer::Own) else {
            return job();
        };
        let op = Op::FdOpen;
        // SAFETY: the caller's contract.
        stack::run_isolated(|| unsafe {
            let made = job();
            let recorded =
                if self.replays_inputs(on) { self.state.replay_input(op, requested, places) } else { None };
            let result = recorded.unwrap_or(made);
            self.state.record(op, false, requested, result, places);
            result
        })
    }

    /// Returns when a wait gives up, by the socket's timeout.
    fn wait_limit(&self, io: &Io, on: Descriptor) -> u64 {
        let sockets = matches!(on.channel.kind, ChannelKind::Socket | ChannelKind::Pair);
        let mut fds = [libc::pollfd { fd: io.fd, events: io.events, revents: 0 }];
        if !sockets || ready_now(&mut fds) != 0 {
            return u64::MAX;
        }
        let option = if io.events == libc::POLLIN { libc::SO_RCVTIMEO } else { libc::SO_SNDTIMEO };
        let mut time = libc::timeval { tv_sec: 0, tv_usec: 0 };
        let mut size = size_of_val(&time);
        let (level, option) = (libc::SOL_SOCKET as usize, option as usize);
        let place = &raw mut time as usize;
        // SAFETY: there is room for the result and for its size.
        unsafe {
            sys::call(libc::SYS_getsockopt, [io.fd as usize, level, option, place, &raw mut size as usize, 0])
        };
        match time.tv_sec as u64 * 1_000_000 + time.tv_usec as u64 {
            0 => u64::MAX,
            micros => self.state.clock.after(micros.saturating_mul(1_000)),
        }
    }

    /// Performs an operation that is complete in one call when it is possible.
    ///
    /// # Safety
    /// The contract of the system call.
    pub(super) unsafe fn io(
        &mut self,
        io: Io,
        call: i64,
        args: [usize; 6],
        places: &OutputBuffers<'_>,
    ) -> Answer {
        let Some(on) = self.state.descriptors.lookup(io.fd) else {
            let operation = (Op::FileRead, FileCall::Position);
            // SAFETY: the caller's contract.
            let job = || unsafe { sys::call(call, args) };
            return Ok(self.on_descriptor(operation, io.fd, io.pc, job, |result| *result));
        };
        let requested: usize = places.counted.iter().map(|vector| vector.iov_len).sum();
        if io.op == Op::FdRead && requested < on.smallest_read {
            self.turn(io.op, on.channel.as_addr() as usize, io.pc);
            // SAFETY: the caller's contract.
            let result = unsafe { sys::call(call, args) };
            self.log_io(&io, on, Flags::NONE, result);
            return Ok(result);
        }
        let turn = self.wait_for_io(&io, on);
        // SAFETY: the caller's contract.
        let job = || match turn {
            // SAFETY: the caller's contract.
            Turn::Go => unsafe { sys::call(call, args) },
            _ => -libc::EAGAIN as isize,
        };
        let result = if matches!(turn, Turn::Cancelled | Turn::Interrupted) {
            -libc::EINTR as isize
        } else {
            // SAFETY: the caller's contract.
            unsafe { self.answer((io.op, on, turn), requested, places, job) }
        };
        self.log_io(&io, on, turn.flags(), result);
        if turn == Turn::Cancelled { Err(Cancelled) } else { Ok(result) }
    }

    /// Writes the whole message, in several parts if necessary: a blocking write returns when everything is
    /// written.
    ///
    /// # Safety
    /// The contract of `sendmsg`; for descriptors that are no sockets only the message's vectors count.
    pub(super) unsafe fn write(&mut self, mut io: Io, message: &libc::msghdr, flags: i32) -> Answer {
        // SAFETY: the caller's contract.
        let mut left = unsafe { Remaining::of(message) };
        let Some(on) = self.state.descriptors.lookup(io.fd) else {
            // SAFETY: the caller's contract.
            let job = || unsafe { left.write_plain(io.fd) };
            return Ok(self.on_descriptor(FILE_WRITE, io.fd, io.pc, job, |result| *result));
        };
        io.at_once |= is_nonblocking(io.fd);
        let mut written = 0;
        loop {
            let turn = self.wait_for_io(&io, on);
            let requested = left.bytes();
            // SAFETY: the caller's contract.
            let job = || match turn {
                // SAFETY: the caller's contract.
                Turn::Go => unsafe { left.write(&io, on.channel.kind, message, flags) },
                _ => -libc::EAGAIN as isize,
            };
            let result = match turn {
                Turn::Cancelled | Turn::Interrupted => -libc::EINTR as isize,
                // SAFETY: the caller's contract.
                _ => unsafe { self.answer((io.op, on, turn), requested, &OutputBuffers::NONE, job) },
            };
            if self.replays_inputs(on) {
                let replayed = result.max(0) as usize;
                if on.peer == Peer::Children {
                    // SAFETY: the caller's contract.
                    unsafe { left.write_some(&io, replayed) };
                }
                left.skip(replayed);
            }
            // The call may still return `EAGAIN` after `poll` reported the descriptor ready.
            let again = result == -libc::EAGAIN as isize && turn == Turn::Go && !io.at_once;
            let result = if again { 0 } else { result };
            self.log_io(&io, on, turn.flags(), result);
            written += result.max(0);
            if turn == Turn::Cancelled {
                return Err(Cancelled);
            }
            if result < 0 || left.is_empty() || io.at_once {
                return Ok(if written > 0 { written } else { result });
            }
        }
    }
}

/// The part of a message that is not written yet.
struct Remaining {
    vectors: *const Vector,
    count: usize,
    /// The bytes of the first vector that are written.
    done: usize,
    whole: bool,
}

/// The number of bytes that a ready pipe accepts at once and completely.
const ATOMIC: usize = libc::PIPE_BUF;

impl Remaining {
    unsafe fn of(message: &libc::msghdr) -> Self {
        let mut left = Self { vectors: message.msg_iov, count: message.msg_iovlen, done: 0, whole: true };
        left.skip(0);
        left
    }

    fn is_empty(&self) -> bool {
        self.count == 0
    }

    fn bytes(&self) -> usize {
        // SAFETY: `count` vectors are left.
        (0..self.count).map(|at| unsafe { (*self.vectors.add(at)).iov_len }).sum::<usize>() - self.done
    }

    /// Counts so many bytes as written.
    fn skip(&mut self, mut bytes: usize) {
        while self.count > 0 {
            // SAFETY: `count` vectors are left.
            let len = unsafe { (*self.vectors).iov_len } - self.done;
            if bytes < len {
                self.done += bytes;
                return;
            }
            bytes -= len;
            self.done = 0;
            self.count -= 1;
            self.vectors = self.vectors.wrapping_add(1);
        }
    }

    /// Returns the next vectors, limited to so many bytes.
    fn next(&self, most: usize) -> ([Vector; 8], usize) {
        let mut next = [Vector { iov_base: core::ptr::null_mut(), iov_len: 0 }; 8];
        let (mut count, mut room) = (0, most);
        while count < next.len().min(self.count) && room > 0 {
            // SAFETY: `count` vectors are left.
            let vector = unsafe { *self.vectors.add(count) };
            let done = if count == 0 { self.done } else { 0 };
            let len = (vector.iov_len - done).min(room);
            next[count] = Vector { iov_base: vector.iov_base.wrapping_byte_add(done), iov_len: len };
            room -= len;
            count += 1;
        }
        (next, count)
    }

    /// Writes up to so many bytes without blocking and does not count them as written. In a replay, a child
    /// gets again what it was sent.
    unsafe fn write_some(&self, io: &Io, bytes: usize) {
        let mut fds = [libc::pollfd { fd: io.fd, events: io.events, revents: 0 }];
        if ready_now(&mut fds) != 1 || fds[0].revents & (libc::POLLERR | libc::POLLHUP) != 0 {
            return;
        }
        let (vectors, count) = self.next(bytes);
        let args = [io.fd as usize, vectors.as_ptr() as usize, count, 0, 0, 0];
        // SAFETY: the caller's contract.
        without_blocking(io.fd, || unsafe { sys::call(libc::SYS_writev, args) });
    }

    unsafe fn write_plain(&self, fd: i32) -> isize {
        // SAFETY: the caller's contract.
        unsafe { sys::call(libc::SYS_writev, [fd as usize, self.vectors as usize, self.count, 0, 0, 0]) }
    }

    /// Writes as much as possible without blocking.
    unsafe fn write(&mut self, io: &Io, kind: ChannelKind, message: &libc::msghdr, flags: i32) -> isize {
        if matches!(kind, ChannelKind::Socket | ChannelKind::Pair) {
            // SAFETY: the caller's contract.
            return unsafe { self.send(io.fd, message, flags) };
        }
        let mut written = 0;
        loop {
            let most = if kind == ChannelKind::Pipe && !io.at_once { ATOMIC } else { usize::MAX };
            let (vectors, count) = if self.whole && most == usize::MAX {
                ([Vector { iov_base: core::ptr::null_mut(), iov_len: 0 }; 8], 0)
            } else {
                self.next(most)
            };
            let (place, count) = if count == 0 {
                (self.vectors as usize, self.count)
            } else {
                (vectors.as_ptr() as usize, count)
            };
            // SAFETY: the caller's contract.
            let write = || unsafe { sys::call(libc::SYS_writev, [io.fd as usize, place, count, 0, 0, 0]) };
            let result = if kind == ChannelKind::Pipe { write() } else { without_blocking(io.fd, write) };
            if result < 0 {
                return if written > 0 { written } else { result };
            }
            written += result;
            self.skip(result as usize);
            self.whole = false;
            let mut fds = [libc::pollfd { fd: io.fd, events: io.events, revents: 0 }];
            if self.is_empty() || io.at_once || ready_now(&mut fds) != 1 {
                return written;
            }
        }
    }

    unsafe fn send(&mut self, fd: i32, message: &libc::msghdr, flags: i32) -> isize {
        let mut part = *message;
        let (mut vectors, count) = self.next(usize::MAX);
        if !self.whole {
            (part.msg_iov, part.msg_iovlen) = (vectors.as_mut_ptr(), count);
            (part.msg_control, part.msg_controllen) = (core::ptr::null_mut(), 0);
        }
        let flags = (flags | libc::MSG_DONTWAIT) as usize;
        // SAFETY: the caller's contract.
        let sent =
            unsafe { sys::call(libc::SYS_sendmsg, [fd as usize, &raw const part as usize, flags, 0, 0, 0]) };
        if sent >= 0 {
            // A message without any bytes is sent, too.
            self.skip(sent as usize);
            self.whole = false;
        }
        sent
    }
}

/// Returns a message that consists of these vectors.
pub(super) fn message(vectors: *const Vector, count: usize) -> libc::msghdr {
    // SAFETY: all zeros is an empty message.
    let mut message: libc::msghdr = unsafe { core::mem::zeroed() };
    (message.msg_iov, message.msg_iovlen) = (vectors.cast_mut(), count);
    message
}

/// Returns a read operation on this descriptor.
pub(super) const fn reading(fd: i32, pc: u64) -> Io {
    Io { op: Op::FdRead, fd, events: libc::POLLIN, at_once: false, pc }
}

/// Returns a write operation on this descriptor.
pub(super) const fn writing(fd: i32, pc: u64) -> Io {
    Io { op: Op::FdWrite, fd, events: libc::POLLOUT, at_once: false, pc }
}

/// `read` as the system call.
pub(super) unsafe fn read_bytes(
    runtime: &mut Runtime,
    fd: i32,
    place: Buffer,
    size: usize,
    pc: u64,
) -> Answer {
    // SAFETY: the program's buffer.
    let room = [Vector { iov_base: place, iov_len: size }];
    let places = OutputBuffers { counted: &room, ..OutputBuffers::NONE };
    // SAFETY: as above.
    unsafe {
        runtime.io(reading(fd, pc), libc::SYS_read, [fd as usize, place as usize, size, 0, 0, 0], &places)
    }
}

/// `write` as the system call.
pub(super) unsafe fn write_bytes(
    runtime: &mut Runtime,
    fd: i32,
    bytes: Bytes,
    size: usize,
    pc: u64,
) -> Answer {
    if runtime.state.descriptors.lookup(fd).is_none() {
        // SAFETY: the program's bytes.
        let job = || unsafe { sys::call(libc::SYS_write, [fd as usize, bytes as usize, size, 0, 0, 0]) };
        return Ok(runtime.on_descriptor(FILE_WRITE, fd, pc, job, |result| *result));
    }
    let vector = Vector { iov_base: bytes.cast_mut(), iov_len: size };
    // SAFETY: the program's bytes.
    unsafe { runtime.write(writing(fd, pc), &message(&raw const vector, 1), 0) }
}

/// Returns whether a descriptor is of /proc. How much there is to read, as in a list of mappings, differs between runs that
/// differ in nothing else, so reading it is no event.
fn is_process_file(fd: i32) -> bool {
    let device = |path: &core::ffi::CStr, at: i32, flags: i32| {
        // SAFETY: all zeros are a valid status.
        let mut status: libc::stat = unsafe { core::mem::zeroed() };
        let args = [at as usize, path.as_ptr() as usize, &raw mut status as usize, flags as usize, 0, 0];
        // SAFETY: a C string, and room for a status.
        (unsafe { sys::call(libc::SYS_newfstatat, args) } == 0).then_some(status.st_dev)
    };
    let own = device(c"", fd, libc::AT_EMPTY_PATH);
    own.is_some() && own == device(c"/proc", libc::AT_FDCWD, 0)
}

/// `read`, with the access to the program's buffer.
unsafe fn read_into(runtime: &mut Runtime, fd: i32, place: Buffer, size: usize, pc: u64) -> Answer {
    let is_file = runtime.state.descriptors.lookup(fd).is_none()
        && !runtime.is_file_event(fd)
        && !(access::is_observing() && is_process_file(fd));
    // SAFETY: the program's buffer.
    buffers::fill(runtime, (place, size), is_file, pc, |runtime| unsafe {
        read_bytes(runtime, fd, place, size, pc)
    })
}

/// `readv`, with the accesses to the program's buffers.
unsafe fn read_into_vectors(runtime: &mut Runtime, call: i64, args: [usize; 6], pc: u64) -> Answer {
    let [fd, vectors, count, ..] = args;
    let vectors = vectors as *const Vector;
    // SAFETY: the program's vectors.
    unsafe {
        let room = if (count as i32) > 0 { core::slice::from_raw_parts(vectors, count) } else { &[] };
        let places = OutputBuffers { counted: room, ..OutputBuffers::NONE };
        let answer = runtime.io(reading(fd as i32, pc), call, args, &places);
        if let Ok(bytes) = answer {
            buffers::filled(runtime, vectors, room.len(), pc, bytes);
        }
        answer
    }
}

/// `pread`: descriptors with positions never block.
unsafe fn read_at(runtime: &mut Runtime, fd: i32, place: Buffer, size: usize, at: i64, pc: u64) -> Answer {
    let args = [fd as usize, place as usize, size, at as usize, 0, 0];
    let is_event = runtime.is_file_event(fd);
    buffers::fill(runtime, (place, size), !is_event, pc, |runtime| {
        // SAFETY: the program's buffer.
        let job = || unsafe { sys::call(libc::SYS_pread64, args) };
        Ok(runtime.on_descriptor((Op::FileRead, FileCall::Transfer), fd, pc, job, |result| *result))
    })
}

/// `pwrite`, in the same way.
unsafe fn write_at(runtime: &mut Runtime, fd: i32, bytes: Bytes, size: usize, at: i64, pc: u64) -> Answer {
    let vector = Vector { iov_base: bytes.cast_mut(), iov_len: size };
    // SAFETY: the program's bytes.
    unsafe {
        buffers::read_by_kernel(runtime, &raw const vector, 1, pc);
        let job = || sys::call(libc::SYS_pwrite64, [fd as usize, bytes as usize, size, at as usize, 0, 0]);
        Ok(runtime.on_descriptor((Op::FileWrite, FileCall::Transfer), fd, pc, job, |result| *result))
    }
}

hooks! {
    fn read(fd: i32, place: Buffer, size: usize) -> isize, |runtime, pc| {
        finish(read_into(runtime, fd, place, size, pc))
    }

    fn pread(fd: i32, place: Buffer, size: usize, at: i64) -> isize, |runtime, pc| {
        finish(read_at(runtime, fd, place, size, at, pc))
    }

    fn pread64(fd: i32, place: Buffer, size: usize, at: i64) -> isize, |runtime, pc| {
        finish(read_at(runtime, fd, place, size, at, pc))
    }

    fn pwrite(fd: i32, bytes: Bytes, size: usize, at: i64) -> isize, |runtime, pc| {
        finish(write_at(runtime, fd, bytes, size, at, pc))
    }

    fn pwrite64(fd: i32, bytes: Bytes, size: usize, at: i64) -> isize, |runtime, pc| {
        finish(write_at(runtime, fd, bytes, size, at, pc))
    }

    fn __read_chk(fd: i32, place: Buffer, size: usize, room: usize) -> isize, |runtime, pc| {
        if size > room { return real::__read_chk(fd, place, size, room) }
        finish(read_into(runtime, fd, place, size, pc))
    }

    fn readv(fd: i32, vectors: *const Vector, count: i32) -> isize, |runtime, pc| {
        let args = [fd as usize, vectors as usize, count as usize, 0, 0, 0];
        finish(read_into_vectors(runtime, libc::SYS_readv, args, pc))
    }

    fn write(fd: i32, bytes: Bytes, size: usize) -> isize, |runtime, pc| {
        let vector = Vector { iov_base: bytes.cast_mut(), iov_len: size };
        buffers::read_by_kernel(runtime, &raw const vector, 1, pc);
        finish(write_bytes(runtime, fd, bytes, size, pc))
    }

    fn writev(fd: i32, vectors: *const Vector, count: i32) -> isize, |runtime, pc| {
        buffers::read_by_kernel(runtime, vectors, count.clamp(0, 1024) as usize, pc);
        if count < 0 || runtime.state.descriptors.lookup(fd).is_none() {
            let job = || sys::call(libc::SYS_writev, [fd as usize, vectors as usize, count as usize, 0, 0, 0]);
            return finish(Ok(runtime.on_descriptor(FILE_WRITE, fd, pc, job, |result| *result)));
        }
        finish(runtime.write(writing(fd, pc), &message(vectors, count as usize), 0))
    }

    fn eventfd_read(fd: i32, value: *mut u64) -> i32, |runtime, pc| {
        let got = finish(read_bytes(runtime, fd, value.cast(), size_of::<u64>(), pc));
        if got == size_of::<u64>() as isize { 0 } else { -1 }
    }

    fn eventfd_write(fd: i32, value: u64) -> i32, |runtime, pc| {
        let written = finish(write_bytes(runtime, fd, (&raw const value).cast(), size_of::<u64>(), pc));
        if written == size_of::<u64>() as isize { 0 } else { -1 }
    }
}
