//! The kinds of the program's descriptors: which of them can block, and what is at their other end.
//!
//! The kind of a descriptor is determined once and cached. Every function that creates a blocking descriptor
//! is hooked and overwrites the cache. If a number is reused without a hook (by
//! `fclose` and `fopen`, say), a file may be treated as a pipe. The only effect is an extra event.

use crate::{stack, sys};
use alloc::vec::Vec;
use unsnarl_model::{Channel, ChannelKind};

/// The number of cached descriptors; others are examined each time.
const MAX_DESCRIPTORS: usize = 1 << 16;

/// The process at the other end of a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    /// This process alone.
    Own,
    /// Perhaps a child, which inherited it.
    Children,
    /// Perhaps another process.
    Environment,
}

/// A descriptor that can block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Descriptor {
    pub(crate) channel: Channel,
    pub(crate) peer: Peer,
    /// Reads with room for fewer bytes fail instead of waiting.
    pub(crate) smallest_read: usize,
}

impl Descriptor {
    pub(crate) const fn new(channel: Channel, peer: Peer) -> Self {
        let smallest_read = if matches!(channel.kind, ChannelKind::Event) { size_of::<u64>() } else { 0 };
        Self { channel, peer, smallest_read }
    }
}

#[derive(Clone, Copy, Debug)]
enum CachedKind {
    Nothing,
    /// A file or similar: never blocks.
    Plain,
    Blocks(Descriptor),
}

#[derive(Debug, Default)]
pub(crate) struct Descriptors {
    known: Vec<CachedKind>,
    channels: u32,
}

/// Returns the type of an open file as in `st_mode`; 0 if it is not open. Memory devices count as files.
fn file_type(fd: i32) -> u32 {
    // The file's times differ from run to run: they must leave no trace on the program's stack.
    stack::run_isolated(|| {
        // SAFETY: plain numbers, which the kernel fills in.
        let mut stat: libc::stat = unsafe { core::mem::zeroed() };
        // SAFETY: there is room for the result.
        let known = unsafe { sys::call(libc::SYS_fstat, [fd as usize, &raw mut stat as usize, 0, 0, 0, 0]) };
        match stat.st_mode & libc::S_IFMT {
            _ if known < 0 => 0,
            // Devices with this major number are memory: /dev/null, /dev/zero, /dev/urandom.
            libc::S_IFCHR if libc::major(stat.st_rdev) == 1 => libc::S_IFREG,
            kind => kind,
        }
    })
}

impl Descriptors {
    /// Returns the descriptor's kind; `None` if it cannot block or is not open.
    #[inline]
    pub(crate) fn lookup(&mut self, fd: i32) -> Option<Descriptor> {
        match self.known.get(fd as usize) {
            Some(CachedKind::Plain) => None,
            Some(CachedKind::Blocks(descriptor)) => Some(*descriptor),
            _ => self.inspect(fd),
        }
    }

    /// Returns the peer of a cached descriptor.
    pub(crate) fn peer(&self, fd: i32) -> Option<Peer> {
        match self.known.get(usize::try_from(fd).ok()?) {
            Some(CachedKind::Blocks(descriptor)) => Some(descriptor.peer),
            Some(CachedKind::Plain) => None,
            _ => Some(Peer::Environment),
        }
    }

    #[cold]
    fn inspect(&mut self, fd: i32) -> Option<Descriptor> {
        let kind = match file_type(fd) {
            0 => return None,
            libc::S_IFIFO => Some(ChannelKind::Pipe),
            libc::S_IFSOCK => Some(ChannelKind::Socket),
            libc::S_IFCHR => Some(ChannelKind::Device),
            libc::S_IFREG | libc::S_IFDIR | libc::S_IFBLK | libc::S_IFLNK => None,
            _ => Some(ChannelKind::Other),
        };
        match kind {
            Some(kind) => Some(self.add(fd, kind, Peer::Environment)),
            None => {
                self.set(fd, CachedKind::Plain);
                None
            }
        }
    }

    /// Adds a new channel with this descriptor.
    pub(crate) fn add(&mut self, fd: i32, kind: ChannelKind, peer: Peer) -> Descriptor {
        // The peers of network sockets are not known: one channel for all.
        let number = if kind == ChannelKind::Socket { 0 } else { self.next() };
        let descriptor = Descriptor::new(Channel { kind, number }, peer);
        self.set(fd, CachedKind::Blocks(descriptor));
        descriptor
    }

    /// Adds a descriptor that reports signals; other processes may send them.
    pub(crate) fn add_signal_descriptor(&mut self, fd: i32) {
        let descriptor = self.add(fd, ChannelKind::Other, Peer::Environment);
        let smallest_read = size_of::<libc::signalfd_siginfo>();
        self.set(fd, CachedKind::Blocks(Descriptor { smallest_read, ..descriptor }));
    }

    fn next(&mut self) -> u32 {
        self.channels += 1;
        self.channels
    }

    /// Adds a new channel with two descriptors.
    pub(crate) fn add_pair(&mut self, fds: [i32; 2], kind: ChannelKind) -> Descriptor {
        let first = self.add(fds[0], kind, Peer::Own);
        self.set(fds[1], CachedKind::Blocks(first));
        first
    }

    /// Notes another number for the same channel.
    pub(crate) fn duplicate(&mut self, from: i32, to: i32) {
        let known = self.known.get(from as usize).copied().unwrap_or(CachedKind::Nothing);
        self.set(to, known);
    }

    /// Forgets a descriptor, whose number may be reused.
    pub(crate) fn forget(&mut self, fd: i32) {
        if (fd as usize) < self.known.len() {
            self.set(fd, CachedKind::Nothing);
        }
    }

    fn set(&mut self, fd: i32, known: CachedKind) {
        let fd = fd as usize;
        if fd < MAX_DESCRIPTORS {
            if self.known.len() <= fd {
                self.known.resize((fd + 1).next_multiple_of(256), CachedKind::Nothing);
            }
            self.known[fd] = known;
        }
    }

    /// Notes that the epoll set also waits for this descriptor, and so for its peer.
    pub(crate) fn watch(&mut self, set: i32, fd: i32) {
        if let (Some(mut waits), Some(Descriptor { peer, .. })) = (self.lookup(set), self.lookup(fd)) {
            waits.peer = if peer == Peer::Own { waits.peer } else { peer };
            self.set(set, CachedKind::Blocks(waits));
        }
    }

    /// Notes that a child inherits all descriptors.
    pub(crate) fn note_inherited_by_child(&mut self) {
        for known in &mut self.known {
            if let CachedKind::Blocks(Descriptor { peer: peer @ Peer::Own, .. }) = known {
                *peer = Peer::Children;
            }
        }
    }
}

/// Returns whether calls on the descriptor fail rather than block.
pub(crate) fn is_nonblocking(fd: i32) -> bool {
    // SAFETY: a query without side effects.
    let flags = unsafe { sys::call(libc::SYS_fcntl, [fd as usize, libc::F_GETFL as usize, 0, 0, 0, 0]) };
    flags >= 0 && flags as i32 & libc::O_NONBLOCK != 0
}

/// Runs a job while calls on the descriptor fail rather than block. No other thread of the program runs
/// meanwhile.
pub(crate) fn without_blocking<T>(fd: i32, job: impl FnOnce() -> T) -> T {
    let set = |flags: isize| {
        // SAFETY: only changes the descriptor's flags.
        unsafe { sys::call(libc::SYS_fcntl, [fd as usize, libc::F_SETFL as usize, flags as usize, 0, 0, 0]) };
    };
    // SAFETY: a query without side effects.
    let flags = unsafe { sys::call(libc::SYS_fcntl, [fd as usize, libc::F_GETFL as usize, 0, 0, 0, 0]) };
    if flags < 0 || flags as i32 & libc::O_NONBLOCK != 0 {
        return job();
    }
    set(flags | libc::O_NONBLOCK as isize);
    let done = job();
    set(flags);
    done
}

/// Returns how many of these are ready now; negative for errors.
pub(crate) fn ready_now(fds: &mut [libc::pollfd]) -> isize {
    // SAFETY: the count is the list's length; does not wait.
    unsafe { sys::call(libc::SYS_poll, [fds.as_mut_ptr() as usize, fds.len(), 0, 0, 0, 0]) }
}

/// The kind of a socket, as `socket` takes it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SocketKind {
    domain: i32,
    kind: i32,
    protocol: i32,
}

impl SocketKind {
    /// The kind of a descriptor of which nothing is known.
    pub(crate) const LOCAL: Self = Self { domain: libc::AF_UNIX, kind: libc::SOCK_STREAM, protocol: 0 };

    /// Returns the kind of a socket. A socket that accepts connections makes others of its own kind.
    pub(crate) fn of(fd: i32) -> Self {
        let option = |name: i32| {
            let (mut value, mut size) = (0i32, size_of::<i32>());
            let place = &raw mut value as usize;
            let args =
                [fd as usize, libc::SOL_SOCKET as usize, name as usize, place, &raw mut size as usize, 0];
            // SAFETY: there is room for the result and its size.
            (unsafe { sys::call(libc::SYS_getsockopt, args) } == 0).then_some(value)
        };
        let kind = (|| {
            let (domain, kind) = (option(libc::SO_DOMAIN)?, option(libc::SO_TYPE)?);
            Some(Self { domain, kind, protocol: option(libc::SO_PROTOCOL)? })
        })();
        kind.unwrap_or(Self::LOCAL)
    }
}

/// Opens a descriptor with this number and no peer: it stands for a connection of the recorded run.
pub(crate) fn open_placeholder(number: i32, like: SocketKind, flags: i32) {
    let kind = (like.kind | flags) as usize;
    let cloexec = if flags & libc::SOCK_CLOEXEC == 0 { 0 } else { libc::O_CLOEXEC as usize };
    // SAFETY: creates a socket and gives it its number.
    unsafe {
        let made = sys::call(libc::SYS_socket, [like.domain as usize, kind, like.protocol as usize, 0, 0, 0]);
        if made >= 0 && made != number as isize {
            sys::call(libc::SYS_dup3, [made as usize, number as usize, cloexec, 0, 0, 0]);
            sys::call(libc::SYS_close, [made as usize, 0, 0, 0, 0, 0]);
        }
    }
}
