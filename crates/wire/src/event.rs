//! An event as the target writes it: four words, half a cache line.

use unsnarl_model::{Flags, Op, Order, ThreadIx, waker_field};

/// One executed operation. Code and data addresses are raw here; the controller converts them to modules and
/// offsets later, off the target's hot path.
#[repr(C, align(32))]
#[derive(Clone, Copy, Debug, Default)]
pub struct RawEvent {
    /// Return address (48 bits), operation (8), flags (8).
    op_bits: u64,
    /// Thread (16 bits), memory order (8), size (32, from bit 32).
    thread_bits: u64,
    /// The object.
    pub addr: u64,
    /// See [`Op`].
    pub value: u64,
}

const PC: u64 = (1 << 48) - 1;

impl RawEvent {
    /// Packs an event.
    #[must_use]
    #[inline]
    pub const fn new(thread: ThreadIx, op: Op, flags: Flags, pc: u64, addr: u64, value: u64) -> Self {
        Self {
            op_bits: (pc & PC) | (op as u64) << 48 | (flags.0 as u64) << 56,
            thread_bits: thread.0 as u64,
            addr,
            value,
        }
    }

    /// Adds the size and memory order of an access.
    #[must_use]
    #[inline]
    pub const fn access(self, size: u32, order: Order) -> Self {
        Self { thread_bits: self.thread_bits | (order as u64) << 16 | (size as u64) << 32, ..self }
    }

    /// Adds the event that caused this one, if there was one. See [`unsnarl_model::Event::waker`].
    #[must_use]
    #[inline]
    pub const fn woken_by(self, waker: Option<u64>) -> Self {
        self.with_size(waker_field(waker))
    }

    /// Sets the size, which had none before.
    #[must_use]
    #[inline]
    pub const fn with_size(self, size: u32) -> Self {
        Self { thread_bits: self.thread_bits | (size as u64) << 32, ..self }
    }

    /// Adds these flags.
    #[must_use]
    #[inline]
    pub const fn with(self, flags: Flags) -> Self {
        Self { op_bits: self.op_bits | (flags.0 as u64) << 56, ..self }
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
        Flags((self.op_bits >> 56) as u8)
    }

    /// Returns the thread.
    #[must_use]
    pub const fn thread(&self) -> ThreadIx {
        ThreadIx(self.thread_bits as u16)
    }

    /// Returns the memory order.
    #[must_use]
    pub fn order(&self) -> Order {
        Order::from_number((self.thread_bits >> 16) as u8).unwrap_or(Order::SeqCst)
    }

    /// Returns the number of bytes accessed; for other operations see [`Op`].
    #[must_use]
    pub const fn size(&self) -> u32 {
        (self.thread_bits >> 32) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_round_trip() {
        let flags = Flags::PREEMPTS | Flags::FAILED;
        let event = RawEvent::new(ThreadIx(7), Op::AtomicCas, flags, 0x7fff_1234_5678, 0x1000, 42)
            .access(8, Order::AcqRel);
        assert_eq!(event.pc(), 0x7fff_1234_5678);
        assert_eq!((event.op(), event.flags(), event.thread()), (Some(Op::AtomicCas), flags, ThreadIx(7)));
        assert_eq!((event.order(), event.size()), (Order::AcqRel, 8));
        assert_eq!(size_of::<RawEvent>(), 32);
    }
}
