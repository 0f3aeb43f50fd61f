//! Inputs from outside: recorded when they arrive, and replayed if the plan supplies them.
//!
//! An operation on a descriptor whose peer may be outside is performed for real or, if the plan says so, gets
//! the result from another run: then no real I/O is performed. Each thread has a separate sequence of inputs,
//! so that another order of threads gets the same ones.

use crate::{
    descriptors::{Peer, SocketKind},
    heap,
    log::Log,
    signals::{Info, SentSignal},
    stack,
    state::State,
};
use core::sync::atomic::Ordering;
use unsnarl_model::{ChannelKind, Flags, Misuse, Op, ThreadIx};
use unsnarl_wire::{INPUT_BYTES, RawInput, SERVICE, SNAPSHOTS};

/// Added to the number of a descriptor that existed before the program, where it is recorded as an input. Other inputs
/// of this operation name a system call: by its number, which is smaller, or above bit 48.
const INHERITED: u64 = 1 << 32;

/// Returns the number of a descriptor that existed before the program, if the input records one.
fn inherited_descriptor(input: &RawInput) -> Option<i32> {
    let number = input.requested.checked_sub(INHERITED)?;
    i32::try_from(number).ok().filter(|_| input.op == Op::FdOpen as u16)
}

/// The memory of the program in which an operation stores its results.
#[derive(Clone, Copy)]
pub(crate) struct OutputBuffers<'a> {
    /// Buffers that are filled in order, as far as the result says, in units of this many bytes.
    pub(crate) counted: &'a [libc::iovec],
    pub(crate) unit: usize,
    /// Buffers that are written completely: address and size.
    pub(crate) whole: &'a [(usize, usize)],
}

impl OutputBuffers<'_> {
    pub(crate) const NONE: Self = Self { counted: &[], unit: 1, whole: &[] };

    fn counted_bytes(&self, result: isize) -> usize {
        let room: usize = self.counted.iter().map(|vector| vector.iov_len).sum();
        (result.max(0) as usize).saturating_mul(self.unit).min(room)
    }

    fn bytes(&self, result: isize) -> usize {
        self.counted_bytes(result)
            + self.whole.iter().filter(|(at, _)| *at != 0).map(|(_, len)| len).sum::<usize>()
    }

    /// Calls the job for each piece of memory that the result covers.
    unsafe fn each_piece(&self, result: isize, mut job: impl FnMut(*mut u8, usize)) {
        let mut left = self.counted_bytes(result);
        for vector in self.counted {
            let len = vector.iov_len.min(left);
            job(vector.iov_base.cast(), len);
            left -= len;
        }
        for &(at, len) in self.whole.iter().filter(|(at, _)| *at != 0) {
            job(at as *mut u8, len);
        }
    }
}

/// The behaviour of the recorded thread at an input: it had to wait for it or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitedForInput {
    Yes,
    No,
}

/// The positions up to which the plan's threads have consumed their inputs.
#[derive(Debug, Default)]
pub(crate) struct InputPositions(alloc::vec::Vec<u64>);

impl Log {
    /// Returns whether the plan supplies the inputs from outside.
    pub(crate) fn replays_inputs(&self) -> bool {
        self.header().plan.replays_inputs != 0
    }

    /// Records an input; returns false if there is no room.
    unsafe fn write_input(&self, input: RawInput, places: &OutputBuffers<'_>) -> bool {
        let h = self.header();
        let used = h.inputs.load(Ordering::Relaxed);
        if used + input.size() > INPUT_BYTES {
            return false;
        }
        let place = self.place(h.regions.inputs + used);
        // SAFETY: checked against the region's size; the pieces are the program's memory, just written by the
        // kernel.
        unsafe {
            place.cast::<RawInput>().write(input);
            let mut to = place.add(size_of::<RawInput>());
            places.each_piece(input.result as isize, |from, len| {
                core::ptr::copy_nonoverlapping(from, to, len);
                to = to.add(len);
            });
        }
        h.inputs.store(used + input.size(), Ordering::Release);
        true
    }

    /// Returns the position of the thread's next input in the plan, from this position on.
    fn next_input(&self, entry: u32, mut at: u64) -> Option<u64> {
        let h = self.header();
        while at + (size_of::<RawInput>() as u64) <= h.plan.inputs {
            let input = self.input_at(at);
            if input.thread == entry {
                return Some(at);
            }
            at += input.size();
        }
        None
    }

    fn input_at(&self, at: u64) -> RawInput {
        // SAFETY: within the plan's inputs, which the controller wrote.
        unsafe { self.place(self.header().regions.plan_inputs + at).cast::<RawInput>().read() }
    }
}

impl State {
    /// Registers the descriptors that existed before the program: their peers are outside. If the plan
    /// supplies the inputs, placeholders without a peer take their numbers.
    pub(crate) fn take_over_descriptors(&mut self, inherited: &[i32]) {
        if self.log.replays_inputs() {
            while let Some(input) = self.next_input_of(self.current).map(|at| self.log.input_at(at))
                && let Some(fd) = inherited_descriptor(&input)
                && let Some(kind) = ChannelKind::from_number(input.result as u8)
            {
                // SAFETY: there are no buffers.
                unsafe { self.replay_input(Op::FdOpen, input.requested as usize, &OutputBuffers::NONE) };
                crate::descriptors::open_placeholder(fd, SocketKind::LOCAL, 0);
                self.descriptors.add(fd, kind, Peer::Environment);
                self.record_inherited(fd, kind);
            }
            return;
        }
        let is_own = |fd: i32| fd == SERVICE || SNAPSHOTS.contains(&fd);
        for &fd in inherited.iter().filter(|&&fd| fd > 2 && !is_own(fd)) {
            if let Some(on) = self.descriptors.lookup(fd) {
                self.record_inherited(fd, on.channel.kind);
            }
        }
    }

    fn record_inherited(&mut self, fd: i32, kind: ChannelKind) {
        // SAFETY: there are no buffers.
        unsafe {
            self.record(
                Op::FdOpen,
                false,
                (INHERITED + fd as u64) as usize,
                kind as isize,
                &OutputBuffers::NONE,
            )
        };
    }

    fn next_input_of(&self, thread: ThreadIx) -> Option<u64> {
        let entry = self.log.entry_in_plan(thread)?;
        let from = self.input_positions.0.get(usize::from(entry)).copied().unwrap_or(0);
        self.log.next_input(entry.into(), from)
    }

    /// Returns whether the plan has an input for the thread's pending operation.
    pub(crate) fn has_input(&self, thread: ThreadIx) -> Option<WaitedForInput> {
        let op = self.threads[thread.index()].pending.op;
        let (mut found, mut blocked) = (false, false);
        stack::run_isolated(|| {
            if let Some(at) = self.next_input_of(thread) {
                let input = self.log.input_at(at);
                found = input.op == op as u16 && input.flags & RawInput::TIMED_OUT == 0;
                blocked = input.flags & RawInput::BLOCKED != 0;
            }
        });
        found.then_some(if blocked { WaitedForInput::Yes } else { WaitedForInput::No })
    }

    /// Returns whether the plan's next input for the thread is a signal to handle.
    pub(crate) fn next_is_arrival(&self, thread: ThreadIx) -> bool {
        stack::run_isolated(|| self.next_arrival(thread).is_some())
    }

    fn next_arrival(&self, thread: ThreadIx) -> Option<RawInput> {
        if !self.log.replays_inputs() {
            return None;
        }
        let input = self.log.input_at(self.next_input_of(thread)?);
        (input.op == Op::SigHandle as u16).then_some(input)
    }

    /// Returns whether that signal is due: as many events have happened as in the recorded run.
    pub(crate) fn is_arrival_due(&self, thread: ThreadIx) -> bool {
        stack::run_isolated(|| {
            self.next_arrival(thread).is_some_and(|input| input.requested <= self.log.count())
        })
    }

    /// Takes a signal that the plan has for the running thread now.
    pub(crate) fn take_arrival(&mut self) -> Option<SentSignal> {
        let waits = self.waiting.contains(self.current);
        let input =
            self.next_arrival(self.current).filter(|input| waits || input.requested <= self.log.count())?;
        self.take_signal_from_plan(Op::SigHandle, input)
    }

    /// Takes the signal that the running thread has waited for from the plan.
    pub(crate) fn take_awaited(&mut self) -> Option<SentSignal> {
        let input = self.log.input_at(self.next_input_of(self.current)?);
        if !self.log.replays_inputs() || input.op != Op::SigWait as u16 {
            return None;
        }
        self.take_signal_from_plan(Op::SigWait, input)
    }

    fn take_signal_from_plan(&mut self, op: Op, input: RawInput) -> Option<SentSignal> {
        let mut sent = SentSignal { signal: input.result as i32, info: Info([0; 32]), event: None };
        let whole = [(&raw mut sent.info as usize, size_of::<Info>())];
        let places = OutputBuffers { whole: &whole, ..OutputBuffers::NONE };
        // SAFETY: a local buffer, as large as the record of a signal.
        unsafe {
            self.replay_input(op, input.requested as usize, &places)?;
        }
        self.record_arrival(op, &sent);
        Some(sent)
    }

    /// Records that the running thread takes a signal from outside.
    pub(crate) fn record_arrival(&mut self, op: Op, sent: &SentSignal) {
        let whole = [(&raw const sent.info as usize, size_of::<Info>())];
        let places = OutputBuffers { whole: &whole, ..OutputBuffers::NONE };
        let now = self.log.count() as usize;
        // SAFETY: the buffer is only read.
        unsafe { self.record(op, false, now, sent.signal as isize, &places) };
    }

    /// Returns whether the running thread's next input in the plan is a timeout.
    pub(crate) fn next_timed_out(&self) -> bool {
        stack::run_isolated(|| {
            let next = self.next_input_of(self.current);
            next.is_some_and(|at| self.log.input_at(at).flags & RawInput::TIMED_OUT != 0)
        })
    }

    /// Takes the plan's input and stores it in the buffers; returns `None` if there is none, or one for
    /// another operation.
    ///
    /// # Safety
    /// The buffers are the program's, for the kernel to write to.
    pub(crate) unsafe fn replay_input(
        &mut self,
        op: Op,
        requested: usize,
        places: &OutputBuffers<'_>,
    ) -> Option<isize> {
        let at = self.next_input_of(self.current)?;
        let input = self.log.input_at(at);
        let result = input.result as isize;
        if input.op != op as u16
            || input.requested != requested as u64
            || input.len as usize != places.bytes(result)
        {
            return None;
        }
        let entry = usize::from(self.log.entry_in_plan(self.current)?);
        if self.input_positions.0.len() <= entry {
            heap::with_plan_heap(|| self.input_positions.0.resize(entry + 1, 0));
        }
        self.input_positions.0[entry] = at + input.size();
        if self.next_is_arrival(self.current) {
            self.me().must_check_signals = true;
        }
        // SAFETY: as many bytes as the pieces have room for; the caller passes the pieces.
        unsafe {
            let mut from =
                self.log.place(self.log.header().regions.plan_inputs + at).add(size_of::<RawInput>());
            places.each_piece(result, |to, len| {
                core::ptr::copy_nonoverlapping(from, to, len);
                from = from.add(len);
            });
        }
        Some(result)
    }

    /// Records an input from outside.
    ///
    /// # Safety
    /// The contract of `replay_input`.
    pub(crate) unsafe fn record(
        &mut self,
        op: Op,
        timed_out: bool,
        requested: usize,
        result: isize,
        places: &OutputBuffers<'_>,
    ) {
        let input = RawInput {
            thread: self.current.0.into(),
            op: op as u16,
            flags: if timed_out { RawInput::TIMED_OUT } else { 0 }
                | if self.switch_flags.get().has(Flags::BLOCKED) { RawInput::BLOCKED } else { 0 },
            requested: requested as u64,
            result: result as i64,
            len: places.bytes(result) as u64,
        };
        // SAFETY: the caller's contract.
        if !unsafe { self.log.write_input(input, places) } {
            self.warn(
                Misuse::NotModelled,
                self.threads[self.current.index()].pending.pc,
                0,
                "more than 64 MiB of input: the rest is not recorded",
            );
        }
    }
}
