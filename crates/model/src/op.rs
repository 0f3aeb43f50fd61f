//! The visible operations: what a thread does that other threads can observe.

/// Declares a `u8` enum with its conversion from the number and its printed name.
macro_rules! numbered {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum $name { $($(#[$doc])* $variant,)* }

        impl $name {
            /// All variants, in the order of their numbers.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Returns the variant with this number.
            #[must_use]
            pub fn from_number(number: u8) -> Option<Self> {
                Self::ALL.get(number as usize).copied()
            }

            /// Returns the name as printed for people and in traces of other tools.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $word,)* }
            }
        }
    };
}
pub(crate) use numbered;

numbered! {
    /// A visible operation. `value` is [`crate::Event::value`] and `addr` is [`crate::Event::addr`].
    Op {
        /// A thread's first event. `value`: the thread that created it.
        Start = "start",
        /// A thread's last event. `value`: the result that a join returns.
        End = "end",
        /// The program ends by `exit` or a return from main. `value`: the status.
        Exit = "exit",
        /// `value`: the thread created.
        Create = "create",
        /// `value`: the thread joined.
        Join = "join",
        /// `value`: the thread detached.
        Detach = "detach",
        /// `value`: the thread whose cancellation is requested.
        Cancel = "cancel",
        /// A thread acts on a cancellation request.
        Cancelled = "cancelled",
        /// A mutex or spin lock is initialised.
        LockInit = "lock init",
        /// A mutex or spin lock is destroyed.
        LockDestroy = "lock destroy",
        /// A mutex or spin lock is acquired. `value`: the recursion depth, from 1.
        Lock = "lock",
        /// An attempt to acquire; like `Lock` if it succeeded.
        TryLock = "try lock",
        /// `value`: the remaining recursion depth.
        Unlock = "unlock",
        /// A read-write lock is initialised.
        RwInit = "rwlock init",
        /// A read-write lock is destroyed.
        RwDestroy = "rwlock destroy",
        /// Acquired for reading.
        ReadLock = "read lock",
        /// An attempt to acquire for reading.
        TryReadLock = "try read lock",
        /// Acquired for writing.
        WriteLock = "write lock",
        /// An attempt to acquire for writing.
        TryWriteLock = "try write lock",
        /// Released. `value`: 1 if it was held for writing.
        RwUnlock = "rwlock unlock",
        /// A condition variable is initialised.
        CondInit = "cond init",
        /// A condition variable is destroyed.
        CondDestroy = "cond destroy",
        /// The mutex is released and the wait begins. `value`: the mutex's address. `size`: its remaining
        /// recursion depth.
        CondWait = "cond wait",
        /// The wait is over and the mutex is held again, however the wait ended. `value`: the mutex's
        /// address. [`crate::Event::waker`]: the event that woke the thread.
        CondWake = "cond wake",
        /// `value`: the number of waiters woken (0: the signal was lost).
        Signal = "signal",
        /// `value`: the number of waiters woken.
        Broadcast = "broadcast",
        /// A semaphore is initialised. `value`: its count.
        SemInit = "sem init",
        /// A semaphore is destroyed.
        SemDestroy = "sem destroy",
        /// `value`: the count afterwards.
        SemWait = "sem wait",
        /// `value`: the count afterwards.
        SemTryWait = "sem try wait",
        /// `value`: the count afterwards.
        SemPost = "sem post",
        /// `value`: the count.
        SemGet = "sem value",
        /// A barrier is initialised. `value`: the number of threads it waits for.
        BarrierInit = "barrier init",
        /// A barrier is destroyed.
        BarrierDestroy = "barrier destroy",
        /// A thread arrives. `value`: the round, from 0.
        BarrierArrive = "barrier arrive",
        /// A thread continues. `value`: the round it arrived in.
        BarrierLeave = "barrier leave",
        /// A once routine or static initialiser begins.
        OnceBegin = "once begin",
        /// A once routine or static initialiser is done.
        OnceEnd = "once end",
        /// A thread found the initialisation done, perhaps after waiting.
        OncePass = "once pass",
        /// A futex wait begins, or fails at once because the word had another value. `value`: the word.
        FutexWait = "futex wait",
        /// The wait is over. [`crate::Event::waker`]: the event that woke the thread.
        FutexWoken = "futex woken",
        /// `value`: the number of waiters woken.
        FutexWake = "futex wake",
        /// `value`: the futex that waiters are moved to. `size`: the number of waiters woken or moved.
        FutexRequeue = "futex requeue",
        /// `value`: the value read.
        AtomicLoad = "atomic load",
        /// `value`: the value written.
        AtomicStore = "atomic store",
        /// Read-modify-write. `value`: the value written.
        AtomicRmw = "atomic update",
        /// Compare-and-exchange. `value`: the variable's value afterwards.
        AtomicCas = "atomic compare-exchange",
        /// A fence.
        Fence = "fence",
        /// A plain read. `value`: the value read (up to 8 bytes).
        Read = "read",
        /// A plain write. `value`: the previous contents (up to 8 bytes).
        Write = "write",
        /// The thread offers the processor to others.
        Yield = "yield",
        /// A sleep is over. `value`: its end in virtual nanoseconds.
        Sleep = "sleep",
        /// Memory is allocated: earlier accesses to its addresses were to other memory.
        Alloc = "allocate",
        /// Memory is freed: no thread may access it any more.
        Free = "free",
        /// A schedule point that the program itself declared. `value`: the address of its name.
        Point = "point",
        /// The program marks where the search should begin.
        Checkpoint = "checkpoint",
        /// Descriptors are created: a pipe, a socket, an eventfd … For this and all following operations on
        /// descriptors, `addr` is the [`crate::Channel`] and `size` the descriptor's number. `value`: the
        /// second descriptor of a pair.
        FdOpen = "fd open",
        /// A descriptor is closed, or one direction of a socket is shut down.
        FdClose = "fd close",
        /// Data is read or received. `value`: the number of bytes, or the error number if it failed.
        FdRead = "fd read",
        /// Data is written or sent. `value`: the number of bytes, or the error number if it failed.
        FdWrite = "fd write",
        /// `poll`, `select` and similar calls. `value`: the number of ready descriptors, or the error number
        /// if it failed.
        FdWait = "fd wait",
        /// A connection is accepted. `value`: its descriptor, or the error number if it failed.
        FdAccept = "fd accept",
        /// A connection is established. `value`: the error number if it failed.
        FdConnect = "fd connect",
        /// A file lock is acquired, released or queried. `value`: the error number if it failed.
        FileLock = "file lock",
        /// A signal's action is set. For this and all following operations on signals, `addr` is the signal's
        /// number.
        SigAction = "signal action",
        /// A thread changes its signal mask. `value`: the new mask.
        SigMask = "signal mask",
        /// A signal is sent. `value`: the receiving thread, or `u64::MAX` for the process. Failed: the signal
        /// is ignored.
        SigSend = "send signal",
        /// A thread takes a signal and its handler begins. [`crate::Event::waker`]: the event that sent it.
        /// Failed: another thread has taken it.
        SigHandle = "handle signal",
        /// A wait for signals is over (`sigwait` and similar calls). [`crate::Event::waker`]: as for
        /// `SigHandle`.
        SigWait = "wait for signal",
        /// A wait until a handler has run is over (`pause`, `sigsuspend`, or a sleep that a handler
        /// interrupted).
        SigPause = "pause",
        /// A timer is armed or disarmed. `value`: its expiry in virtual nanoseconds; 0 if it is disarmed.
        TimerSet = "set timer",
        /// A timer expires. `addr`: the signal that it sends, if any. `value`: the time in virtual
        /// nanoseconds.
        TimerFire = "timer fires",
        /// A child process is started. For this and for `ChildWait`, `addr` is a [`crate::Channel`] of kind
        /// `Children`. `value`: the child's process id as the program sees it, or the error number if it
        /// failed.
        ChildStart = "child start",
        /// A child process is waited for. `value`: its process id as the program sees it, 0 for none, or the
        /// error number if it failed.
        ChildWait = "child wait",
        /// A file is looked up, opened or read. For this and all following operations on files, `addr` is the
        /// [`crate::FileName`] and `value` the number of bytes, or the error number if it failed. `size`: the
        /// number of the [`crate::FileCall`].
        FileRead = "file read",
        /// The contents or attributes of a file change. `size`: as for `FileRead`.
        FileWrite = "file write",
        /// A file, directory or link is created, or was there already. `size`: as for `FileRead`.
        FileCreate = "file create",
        /// A file, directory or link is removed.
        FileRemove = "file remove",
        /// A file gets the name `addr`, instead of the name `size` or in addition to it; both are
        /// [`crate::FileName`]s, see [`crate::FileName::other`].
        FileRename = "file rename",
        /// The names in a directory are listed.
        FileList = "file list",
    }
}

numbered! {
    /// The memory order of an atomic operation, numbered as in C.
    Order {
        /// No ordering; also the order of a plain access.
        Relaxed = "relaxed",
        /// Ordered before operations that depend on the value.
        Consume = "consume",
        /// Later operations are not reordered before it.
        Acquire = "acquire",
        /// Earlier operations are not reordered after it.
        Release = "release",
        /// Acquire and release.
        AcqRel = "acq_rel",
        /// Acquire and release, in one total order of all such operations.
        SeqCst = "seq_cst",
    }
}

numbered! {
    /// The kind of object that an operation acts on.
    ObjectKind {
        /// A thread.
        Thread = "thread",
        /// A mutex or spin lock.
        Lock = "lock",
        /// A read-write lock.
        RwLock = "rwlock",
        /// A condition variable.
        Cond = "cond",
        /// A semaphore.
        Semaphore = "semaphore",
        /// A barrier.
        Barrier = "barrier",
        /// A once control or the guard of a static.
        Once = "once",
        /// A futex word.
        Futex = "futex",
        /// Memory accessed by reads and writes.
        Memory = "memory",
        /// The object behind descriptors: a pipe, a socket …
        Channel = "descriptor",
        /// A signal, by its number.
        Signal = "signal",
        /// A file, by its path.
        File = "file",
    }
}

impl Op {
    /// Returns the kind of object that the operation acts on; `None` if it has none (sleep, fence …).
    #[must_use]
    pub const fn object_kind(self) -> Option<ObjectKind> {
        use ObjectKind as K;
        Some(match self {
            Self::Start | Self::End | Self::Create | Self::Join | Self::Detach | Self::Cancel => K::Thread,
            Self::LockInit | Self::LockDestroy | Self::Lock | Self::TryLock | Self::Unlock => K::Lock,
            Self::RwInit
            | Self::RwDestroy
            | Self::ReadLock
            | Self::TryReadLock
            | Self::WriteLock
            | Self::TryWriteLock
            | Self::RwUnlock => K::RwLock,
            Self::CondInit
            | Self::CondDestroy
            | Self::CondWait
            | Self::CondWake
            | Self::Signal
            | Self::Broadcast => K::Cond,
            Self::SemInit
            | Self::SemDestroy
            | Self::SemWait
            | Self::SemTryWait
            | Self::SemPost
            | Self::SemGet => K::Semaphore,
            Self::BarrierInit | Self::BarrierDestroy | Self::BarrierArrive | Self::BarrierLeave => K::Barrier,
            Self::OnceBegin | Self::OnceEnd | Self::OncePass => K::Once,
            Self::FutexWait | Self::FutexWoken | Self::FutexWake | Self::FutexRequeue => K::Futex,
            Self::AtomicLoad
            | Self::AtomicStore
            | Self::AtomicRmw
            | Self::AtomicCas
            | Self::Read
            | Self::Write
            | Self::Alloc
            | Self::Free => K::Memory,
            Self::FdOpen
            | Self::FdClose
            | Self::FdRead
            | Self::FdWrite
            | Self::FdWait
            | Self::FdAccept
            | Self::FdConnect
            | Self::FileLock
            | Self::ChildStart
            | Self::ChildWait => K::Channel,
            Self::SigAction | Self::SigSend | Self::SigHandle | Self::SigWait => K::Signal,
            Self::FileRead
            | Self::FileWrite
            | Self::FileCreate
            | Self::FileRemove
            | Self::FileRename
            | Self::FileList => K::File,
            Self::Exit
            | Self::Cancelled
            | Self::Fence
            | Self::Yield
            | Self::Sleep
            | Self::Point
            | Self::Checkpoint
            | Self::SigMask
            | Self::SigPause
            | Self::TimerSet
            | Self::TimerFire => return None,
        })
    }

    /// Returns whether this is a plain access, which is a schedule point only if the plan says so.
    #[must_use]
    pub const fn is_plain_access(self) -> bool {
        matches!(self, Self::Read | Self::Write)
    }

    /// Returns whether this is an atomic operation on memory.
    #[must_use]
    pub const fn is_atomic(self) -> bool {
        matches!(self, Self::AtomicLoad | Self::AtomicStore | Self::AtomicRmw | Self::AtomicCas)
    }

    /// Returns whether this is an operation on a file by its path, or on the contents of a regular file. While a
    /// thread is alone, its operations on files are no events.
    #[must_use]
    pub const fn is_on_file(self) -> bool {
        matches!(
            self,
            Self::FileRead
                | Self::FileWrite
                | Self::FileCreate
                | Self::FileRemove
                | Self::FileRename
                | Self::FileList
        )
    }

    /// Returns whether this operation initialises its object, so that the address stood for another object
    /// before.
    #[must_use]
    pub const fn is_init(self) -> bool {
        matches!(self, Self::LockInit | Self::RwInit | Self::CondInit | Self::SemInit | Self::BarrierInit)
    }

    /// Returns whether this only reads: two such operations commute.
    #[must_use]
    pub const fn only_reads(self) -> bool {
        matches!(self, Self::Read | Self::AtomicLoad | Self::SemGet | Self::FileRead)
    }

    /// Returns whether this operation concerns signals: sending, delivery, masks, handlers.
    #[must_use]
    pub const fn is_signalling(self) -> bool {
        matches!(
            self,
            Self::SigAction
                | Self::SigMask
                | Self::SigSend
                | Self::SigHandle
                | Self::SigWait
                | Self::SigPause
                | Self::TimerSet
                | Self::TimerFire
        )
    }

    /// Returns whether another event can cause this one: a wake-up or a sent signal. See
    /// [`crate::Event::waker`].
    #[must_use]
    pub const fn has_waker(self) -> bool {
        matches!(self, Self::CondWake | Self::FutexWoken | Self::SigHandle | Self::SigWait)
    }

    /// Returns whether the thread offers the processor by this operation; a switch away before it is no
    /// preemption.
    #[must_use]
    pub const fn yields(self) -> bool {
        matches!(self, Self::Yield | Self::Sleep)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operation_numbers_round_trip() {
        for &op in Op::ALL {
            assert_eq!(Op::from_number(op as u8), Some(op));
        }
        assert_eq!(Op::from_number(u8::MAX), None);
    }
}
