//! Channels: the objects behind file descriptors.

use crate::op::numbered;

numbered! {
    /// The kind of object behind a descriptor.
    ChannelKind {
        /// A pipe or a FIFO.
        Pipe = "pipe",
        /// A pair of connected sockets.
        Pair = "socket pair",
        /// Any other socket.
        Socket = "socket",
        /// An event counter.
        Event = "eventfd",
        /// A timer, in virtual time.
        Timer = "timerfd",
        /// A set of descriptors to wait for.
        Set = "epoll",
        /// Signals to be read.
        Signals = "signalfd",
        /// A terminal or another device.
        Device = "device",
        /// A file; only its locks are events.
        File = "file",
        /// Something else that can block: inotify, a process …
        Other = "descriptor",
        /// Several channels at once.
        Several = "descriptors",
        /// The program's child processes.
        Children = "child process",
    }
}

/// The object behind descriptors: both ends of a pipe are one channel, and so are duplicated descriptors. Its
/// number differs from every memory address, so it can be used in place of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Channel {
    /// The kind of object.
    pub kind: ChannelKind,
    /// The ordinal of the channel in the run, from 1; 0 if not distinguished.
    pub number: u32,
}

/// Beyond all addresses of a program.
const MARK: u64 = 0xfd << 56;

impl Channel {
    /// Encodes the channel in place of an address.
    #[must_use]
    pub const fn as_addr(self) -> u64 {
        MARK | (self.kind as u64) << 32 | self.number as u64
    }

    /// Decodes a channel; returns `None` for addresses in memory.
    #[must_use]
    pub fn from_addr(addr: u64) -> Option<Self> {
        let kind = ChannelKind::from_number((addr >> 32) as u8)?;
        let channel = Self { kind, number: addr as u32 };
        (channel.as_addr() == addr).then_some(channel)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels_are_distinct_from_addresses() {
        for &kind in ChannelKind::ALL {
            let channel = Channel { kind, number: 7 };
            assert_eq!(Channel::from_addr(channel.as_addr()), Some(channel));
        }
        assert_eq!(Channel::from_addr(0x7fff_f7a0_1000), None);
        assert_eq!(Channel::from_addr(0), None);
    }
}
