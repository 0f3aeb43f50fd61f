//! An event as the target writes it: four words, half a cache line.

use unsnarl_model::{Flags, Op, Order, ThreadIx, Waker};

/// One executed operation. Code and data addresses are raw here; the controller converts them to modules and
/// offsets later, off the target's hot path.
///
/// All flags are in one word, so that adding some is one instruction.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct RawEvent {
    /// Return address (48 bits), operation (8), memory order (8).
    op_bits: u64,
    /// Thread (16 bits), flags (16), size (32).
    thread_bits: u64,
    /// The object.
    pub addr: u64,
    /// See [`Op`]; for a large access its size, because such a value is not recorded.
    value: u64,
}

/// The size of all accesses and blocks that are at least as large.
const LARGE: u64 = u32::MAX as u64;

const SIZE: u32 = 32;

const PC: u64 = (1 << 48) - 1;

impl RawEvent {
    /// Packs an event.
    #[must_use]
    #[inline]
    pub const fn new(thread: ThreadIx, op: Op, flags: Flags, pc: u64, addr: u64, value: u64) -> Self {
        Self {
            op_bits: (pc & PC) | (op as u64) << 48,
            thread_bits: thread.0 as u64 | (flags.0 as u64) << 16,
            addr,
            value,
        }
    }

    /// Adds the size and memory order of an access, which had none before.
    #[must_use]
    #[inline]
    pub const fn access(self, size: u64, order: Order) -> Self {
        Self { op_bits: self.op_bits | (order as u64) << 56, ..self.with_size(size) }
    }

    /// Adds the event that caused this one, if there was one. See [`unsnarl_model::Event::waker`].
    #[must_use]
    #[inline]
    pub const fn woken_by(self, waker: Option<u64>) -> Self {
        self.with_size(Waker::new(waker).word())
    }

    /// Adds the size, which was 0 before.
    #[must_use]
    #[inline]
    pub const fn with_size(self, size: u64) -> Self {
        let (short, value) = if size < LARGE { (size, self.value) } else { (LARGE, size) };
        Self { thread_bits: self.thread_bits | short << SIZE, value, ..self }
    }

    /// Adds these flags.
    #[must_use]
    #[inline]
    pub const fn with(self, flags: Flags) -> Self {
        Self { thread_bits: self.thread_bits | (flags.0 as u64) << 16, ..self }
    }

    /// Returns the return address of the call that requested the operation.
    #[must_use]
    pub const fn pc(&self) -> u64 {
        self.op_bits & PC
    }

    /// Returns the operation; `None` if the memory was damaged.
    #[must_use]
    pub fn op(&self) -> Option<Op> {
        Op::from_number((self.op_bits >> 48) as u8)
    }

    /// Returns the flags.
    #[must_use]
    pub const fn flags(&self) -> Flags {
        Flags((self.thread_bits >> 16) as u16)
    }

    /// Returns the thread.
    #[must_use]
    pub const fn thread(&self) -> ThreadIx {
        ThreadIx(self.thread_bits as u16)
    }

    /// Returns the memory order.
    #[must_use]
    pub fn order(&self) -> Order {
        Order::from_number((self.op_bits >> 56) as u8).unwrap_or(Order::SeqCst)
    }

    /// Returns the number of bytes accessed; for other operations see [`unsnarl_model::Event::size`].
    #[must_use]
    pub const fn size(&self) -> u64 {
        if self.is_large() { self.value } else { self.thread_bits >> SIZE }
    }

    /// Returns the value, see [`Op`]; 0 if it was not recorded.
    #[must_use]
    pub const fn value(&self) -> u64 {
        if self.is_large() { 0 } else { self.value }
    }

    const fn is_large(&self) -> bool {
        self.thread_bits >> SIZE == LARGE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_round_trip() {
        let (early, late) = (Flags::PREEMPTS | Flags::FAILED, Flags::FOREIGN | Flags::BOUNDED);
        let event = RawEvent::new(ThreadIx(u16::MAX), Op::AtomicCas, early, 0x7fff_1234_5678, 0x1000, 42)
            .access(8, Order::AcqRel)
            .with(late);
        assert_eq!((event.pc(), event.addr, event.value()), (0x7fff_1234_5678, 0x1000, 42));
        assert_eq!((event.op(), event.flags()), (Some(Op::AtomicCas), early | late));
        assert_eq!((event.thread(), event.order(), event.size()), (ThreadIx(u16::MAX), Order::AcqRel, 8));
        assert_eq!(size_of::<RawEvent>(), 32);
    }

    #[test]
    fn large_sizes_are_kept() {
        for size in [0, 1, LARGE - 1, LARGE, LARGE + 1, u64::MAX] {
            let event = RawEvent::default().with_size(size);
            assert_eq!((event.size(), event.value()), (size, 0));
        }
    }

    #[test]
    fn every_waker_is_kept() {
        for waker in [None, Some(0), Some(1 << 30)] {
            let event = RawEvent::default().woken_by(waker);
            assert_eq!(Waker::from_word(event.size()).event(), waker);
        }
    }
}
