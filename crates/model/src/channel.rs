//! What descriptors lead to.

use crate::op::numbered;

numbered! {
    /// What kind of thing a descriptor is.
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
        /// Several at once.
        Several = "descriptors",
        /// The program's child processes.
        Children = "child process",
    }
}

/// A thing that descriptors lead to: both ends of a pipe are one, and so is what was duplicated. It goes by a number that
/// no address in memory has, so that it can stand where addresses do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Channel {
    /// What it is.
    pub kind: ChannelKind,
    /// The how-manieth channel of the run, from 1; 0 for all that are not told apart.
    pub number: u32,
}

/// Beyond all addresses of a program.
const MARK: u64 = 0xfd << 56;

impl Channel {
    /// As it stands in the place of an address.
    #[must_use]
    pub const fn as_addr(self) -> u64 {
        MARK | (self.kind as u64) << 32 | self.number as u64
    }

    /// The other way round; none for addresses in memory.
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
