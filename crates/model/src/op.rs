//! What a thread can do that others can see.

/// Declares a `u8` enum together with the way back from the number and its printed word.
macro_rules! numbered {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum $name { $($(#[$doc])* $variant,)* }

        impl $name {
            /// All of them, in the order of their numbers.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The one with this number.
            #[must_use]
            pub fn from_number(number: u8) -> Option<Self> {
                Self::ALL.get(number as usize).copied()
            }

            /// How it is written for people and in traces of other tools.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $word,)* }
            }
        }
    };
}
pub(crate) use numbered;

numbered! {
    /// A visible operation. `value` means [`crate::Event::value`], `addr` its address.
    Op {
        /// A thread's first event. `value`: who created it.
        Start = "start",
        /// A thread's last event. `value`: what it gives back to who joins it.
        End = "end",
        /// The program ends by `exit` or a return from main. `value`: the status.
        Exit = "exit",
        /// `value`: the thread created.
        Create = "create",
        /// `value`: the thread joined.
        Join = "join",
        /// `value`: the thread detached.
        Detach = "detach",
        /// `value`: the thread asked to stop.
        Cancel = "cancel",
        /// A thread acts on a request to stop.
        Cancelled = "cancelled",
        /// A mutex or spin lock comes into being.
        LockInit = "lock init",
        /// A mutex or spin lock ends.
        LockDestroy = "lock destroy",
        /// A mutex or spin lock is taken. `value`: depth of recursion, from 1.
        Lock = "lock",
        /// Like `Lock` if it succeeded.
        TryLock = "try lock",
        /// `value`: depth of recursion left.
        Unlock = "unlock",
        /// A read-write lock comes into being.
        RwInit = "rwlock init",
        /// A read-write lock ends.
        RwDestroy = "rwlock destroy",
        /// Taken for reading.
        ReadLock = "read lock",
        /// Taken for reading if it succeeded.
        TryReadLock = "try read lock",
        /// Taken for writing.
        WriteLock = "write lock",
        /// Taken for writing if it succeeded.
        TryWriteLock = "try write lock",
        /// Given back. `value`: 1 if it was held for writing.
        RwUnlock = "rwlock unlock",
        /// A condition variable comes into being.
        CondInit = "cond init",
        /// A condition variable ends.
        CondDestroy = "cond destroy",
        /// The mutex is released and the wait begins. `value`: the mutex's address.
        CondWait = "cond wait",
        /// The wait is over and the mutex taken again. `value`: the number of the event that
        /// woke it, or `u64::MAX` if none did.
        CondWake = "cond wake",
        /// `value`: how many waiters may now go on (0: the signal was lost).
        Signal = "signal",
        /// `value`: how many waiters may now go on.
        Broadcast = "broadcast",
        /// A semaphore comes into being. `value`: its count.
        SemInit = "sem init",
        /// A semaphore ends.
        SemDestroy = "sem destroy",
        /// `value`: the count afterwards.
        SemWait = "sem wait",
        /// `value`: the count afterwards.
        SemTryWait = "sem try wait",
        /// `value`: the count afterwards.
        SemPost = "sem post",
        /// `value`: the count.
        SemGet = "sem value",
        /// A barrier comes into being. `value`: how many it waits for.
        BarrierInit = "barrier init",
        /// A barrier ends.
        BarrierDestroy = "barrier destroy",
        /// A thread arrives. `value`: the round, from 0.
        BarrierArrive = "barrier arrive",
        /// A thread goes on. `value`: the round it arrived in.
        BarrierLeave = "barrier leave",
        /// A once routine or static initialiser begins.
        OnceBegin = "once begin",
        /// It is done.
        OnceEnd = "once end",
        /// A thread found it done, perhaps after waiting.
        OncePass = "once pass",
        /// A futex wait begins (or fails at once: the word had another value). `value`: the word.
        FutexWait = "futex wait",
        /// The wait is over. `value`: the number of the event that woke it, or `u64::MAX`.
        FutexWoken = "futex woken",
        /// `value`: how many waiters may now go on.
        FutexWake = "futex wake",
        /// `value`: how many waiters may now go on or were moved.
        FutexRequeue = "futex requeue",
        /// `value`: what was read.
        AtomicLoad = "atomic load",
        /// `value`: what was written.
        AtomicStore = "atomic store",
        /// Read, modify, write. `value`: what was written.
        AtomicRmw = "atomic update",
        /// Compare and exchange. `value`: what is there afterwards.
        AtomicCas = "atomic compare-exchange",
        /// A fence.
        Fence = "fence",
        /// A plain read. `value`: what was read (up to 8 bytes).
        Read = "read",
        /// A plain write. `value`: what was there before (up to 8 bytes).
        Write = "write",
        /// The thread offers the processor to others.
        Yield = "yield",
        /// A sleep is over. `value`: until when it slept, in virtual nanoseconds.
        Sleep = "sleep",
        /// Memory is allocated: what was at its address before is other memory.
        Alloc = "allocate",
        /// Memory is freed: nobody may access it any more.
        Free = "free",
        /// A place that the program itself made a schedule point. `value`: the address of its name.
        Point = "point",
        /// The program says that the search should begin here.
        Checkpoint = "checkpoint",
        /// Descriptors come into being: a pipe, a socket, an eventfd … For this and all that follows on descriptors, `addr`
        /// is the [`crate::Channel`] and `size` the descriptor's number. `value`: of a pair, the second number.
        FdOpen = "fd open",
        /// A descriptor is closed, or one direction of a socket shut down.
        FdClose = "fd close",
        /// Something is read or received. `value`: how many bytes, or the error number if it failed.
        FdRead = "fd read",
        /// Something is written or sent. `value`: how many bytes, or the error number if it failed.
        FdWrite = "fd write",
        /// `poll`, `select` and their kin. `value`: how many descriptors are ready, or the error number if it failed.
        FdWait = "fd wait",
        /// A connection is accepted. `value`: its descriptor, or the error number if it failed.
        FdAccept = "fd accept",
        /// A connection is made. `value`: the error number if it failed.
        FdConnect = "fd connect",
        /// A lock on a file is taken, given back or asked for. `value`: the error number if it failed.
        FileLock = "file lock",
        /// What is to become of a signal is said. For this and all that follows on signals, `addr` is the signal's number.
        SigAction = "signal action",
        /// A thread changes its signal mask. `value`: the mask that it has then.
        SigMask = "signal mask",
        /// A signal is sent. `value`: to which thread, or `u64::MAX` if to the process. Failed: it is ignored.
        SigSend = "send signal",
        /// A thread takes a signal: its handler begins. `value`: the number of the event that sent it, or `u64::MAX`.
        /// Failed: another thread has taken it.
        SigHandle = "handle signal",
        /// A wait for signals is over (`sigwait` and its kin). `value`: as of `SigHandle`.
        SigWait = "wait for signal",
        /// A wait until a handler has run is over (`pause`, `sigsuspend`, or a sleep that a handler ended).
        SigPause = "pause",
        /// A timer is set or stopped. `value`: when it will fire, in virtual nanoseconds; 0 if it is stopped.
        TimerSet = "set timer",
        /// A timer fires. `addr` is the signal that it sends, if it does. `value`: when, in virtual nanoseconds.
        TimerFire = "timer fires",
        /// A child process is started. For this and for `ChildWait`, `addr` is a [`crate::Channel`] of its own kind. `value`: the
        /// child's process id as the program sees it, or the error number if it failed.
        ChildStart = "child start",
        /// A child process is waited for. `value`: its process id as the program sees it, 0 for none, or the error number if it
        /// failed.
        ChildWait = "child wait",
    }
}

numbered! {
    /// The memory order of an atomic operation, numbered as in C.
    Order {
        /// No order at all; also what a plain access has.
        Relaxed = "relaxed",
        /// Ordered after what it depends on.
        Consume = "consume",
        /// What follows stays behind.
        Acquire = "acquire",
        /// What precedes stays before.
        Release = "release",
        /// Both.
        AcqRel = "acq_rel",
        /// Both, and one order for all.
        SeqCst = "seq_cst",
    }
}

numbered! {
    /// What kind of thing an operation is on.
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
        /// Memory that is read and written.
        Memory = "memory",
        /// What descriptors lead to: a pipe, a socket …
        Channel = "descriptor",
        /// A signal, by its number.
        Signal = "signal",
    }
}

impl Op {
    /// What kind of thing the operation is on; none for those on no thing (sleep, fence …).
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

    /// A plain access: a schedule point only if the plan says so.
    #[must_use]
    pub const fn is_plain_access(self) -> bool {
        matches!(self, Self::Read | Self::Write)
    }

    /// An atomic operation on memory.
    #[must_use]
    pub const fn is_atomic(self) -> bool {
        matches!(self, Self::AtomicLoad | Self::AtomicStore | Self::AtomicRmw | Self::AtomicCas)
    }

    /// Whether the thing comes into being with this operation: what was at its address before is
    /// another thing.
    #[must_use]
    pub const fn is_init(self) -> bool {
        matches!(self, Self::LockInit | Self::RwInit | Self::CondInit | Self::SemInit | Self::BarrierInit)
    }

    /// A read that changes nothing: two of them commute.
    #[must_use]
    pub const fn only_reads(self) -> bool {
        matches!(self, Self::Read | Self::AtomicLoad | Self::SemGet)
    }

    /// Whether it has to do with signals: who gets which, and when.
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

    /// Whether its value is the number of the event that brought it about: a wake-up, a signal sent.
    #[must_use]
    pub const fn names_its_cause(self) -> bool {
        matches!(self, Self::CondWake | Self::FutexWoken | Self::SigHandle | Self::SigWait)
    }

    /// The thread offers the processor by this operation; a switch away before it is no preemption.
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
