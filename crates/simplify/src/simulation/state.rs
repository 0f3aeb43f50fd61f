//! The objects that threads share, and the threads' pasts.

use super::{memory::SimulatedMemory, mix};
use crate::static_order::hash::HashMap;
use unsnarl_model::{Event, Flags, Op, Site, ThreadId, ThreadIx};

/// Blocks and ranges that are larger are not told about.
pub(super) const LARGE: u32 = 1 << 16;

/// What is known of objects before anybody does something to them.
#[derive(Debug, Default)]
pub(super) struct Facts {
    /// The counts of semaphores.
    pub(super) counts: HashMap<u64, u64>,
    /// How many a barrier waits for.
    pub(super) barriers: HashMap<u64, u64>,
    /// Whether a once routine has run.
    pub(super) once: HashMap<u64, bool>,
}

/// A thread, by what it has done.
#[derive(Debug)]
pub(super) struct ThreadPast {
    pub(super) id: ThreadId,
    /// The fingerprint of its past.
    pub(super) past: u64,
    children: u32,
    pub(super) ended: bool,
    /// What it gave back when it ended.
    result: u64,
    /// It has done nothing yet.
    new: bool,
    /// It was given memory.
    allocates: bool,
    /// Waits to be woken.
    pub(super) waits: Option<Waits>,
    /// The round of the barrier that it arrived at last.
    pub(super) round: u64,
    /// The latest reads in a row from one site, which may be made together with what follows.
    carried: (Site, Vec<(u64, u32)>),
    /// What it wrote to its own stack.
    own: Vec<(u64, u32)>,
    /// Mutexes that it holds.
    holds: Vec<u64>,
    /// What it is about to do.
    pub(super) about: UpcomingOperation,
}

/// What is known of what a thread is about to do.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum UpcomingOperation {
    /// It begins to wait for this futex.
    Futex(u64),
    #[default]
    Other,
    Unknown,
}

impl UpcomingOperation {
    pub(super) const fn new(op: Op, addr: u64) -> Self {
        match op {
            Op::FutexWait => Self::Futex(addr),
            _ => Self::Other,
        }
    }

    fn fingerprint(self) -> u64 {
        match self {
            Self::Unknown => 41,
            Self::Futex(addr) => mix(addr, 43),
            Self::Other => 47,
        }
    }
}

impl ThreadPast {
    /// Whether it has done nothing yet.
    pub(super) const fn is_new(&self) -> bool {
        self.new
    }
}

/// A wait for a wake-up.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waits {
    /// The condition or futex.
    pub(super) object: u64,
    /// What it takes again afterwards.
    pub(super) mutex: Option<u64>,
    arrival: u64,
    /// Who woke it by name.
    granted: Option<u64>,
}

#[derive(Debug)]
struct WakeUp {
    object: u64,
    at: u64,
    event: u64,
}

#[derive(Debug, Default)]
struct Barrier {
    arrived: u64,
    round: u64,
}

/// A once control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Once {
    Running,
    Done,
    New,
}

/// What was written by somebody with this past, where it was seen; none for what was seen to be different.
pub(super) type WrittenValues = HashMap<u64, Option<u64>>;

/// What is known beforehand.
#[derive(Debug, Default)]
pub(super) struct Known {
    pub(super) facts: Facts,
    pub(super) written: WrittenValues,
    /// After these operations threads do something with each other that is no event.
    pub(super) hidden_dependences: HashMap<(Op, Site), HiddenDependence>,
}

/// What hangs on something that is no event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HiddenDependence {
    /// What others did before at such places.
    Order,
    /// Also which futexes others wait for, or are about to: locks that are taken unseen are marked before that.
    Waits,
    /// Anything that others have done.
    All,
}

/// Everything that threads share.
#[derive(Debug)]
pub(super) struct SimulatedState<'w> {
    known: &'w Known,
    /// What threads did at places with secrets.
    unseen: u64,
    pub(super) threads: Vec<ThreadPast>,
    pub(super) memory: SimulatedMemory,
    /// In which order threads were first given memory: each has a heap of its own.
    heaps: u64,
    live: usize,
    events: u64,
    /// Who holds a mutex, and how deep.
    locks: HashMap<u64, (usize, u32)>,
    readers: HashMap<u64, u64>,
    writers: HashMap<u64, usize>,
    counts: HashMap<u64, u64>,
    sizes: HashMap<u64, u64>,
    barriers: HashMap<u64, Barrier>,
    once: HashMap<u64, Once>,
    wake_ups: Vec<WakeUp>,
    clock: u64,
    /// Whether all accesses are told. If not, the pasts of those who used an object before.
    users: Option<HashMap<u64, u64>>,
    /// Objects that are not as usual: destroyed, or held by one that ended.
    odd: HashMap<u64, ()>,
    /// Mutexes that were destroyed.
    destroyed: HashMap<u64, ()>,
    /// Blocks that were freed and not given again.
    freed: HashMap<u64, ()>,
}

impl<'w> SimulatedState<'w> {
    pub(super) fn new(first: &[ThreadId], known: &'w Known, sees_all_accesses: bool) -> Self {
        let facts = &known.facts;
        let mut state = Self {
            known,
            unseen: 0,
            threads: Vec::new(),
            memory: SimulatedMemory::default(),
            heaps: 0,
            live: 0,
            events: 0,
            locks: HashMap::default(),
            readers: HashMap::default(),
            writers: HashMap::default(),
            counts: facts.counts.clone(),
            sizes: facts.barriers.clone(),
            barriers: HashMap::default(),
            once: HashMap::default(),
            wake_ups: Vec::new(),
            clock: 0,
            users: (!sees_all_accesses).then(HashMap::default),
            odd: HashMap::default(),
            destroyed: HashMap::default(),
            freed: HashMap::default(),
        };
        for (&addr, &done) in &facts.once {
            state.once.insert(addr, if done { Once::Done } else { Once::New });
        }
        for id in first {
            state.add(id.clone(), 0);
        }
        state
    }

    fn add(&mut self, id: ThreadId, creator: u64) {
        let past = id.path().iter().fold(mix(creator, 3), |fingerprint, &nth| mix(fingerprint, nth.into()));
        self.threads.push(ThreadPast {
            id,
            past,
            children: 0,
            ended: false,
            result: 0,
            new: true,
            allocates: false,
            waits: None,
            round: 0,
            carried: (Site::default(), Vec::new()),
            own: Vec::new(),
            holds: Vec::new(),
            about: UpcomingOperation::default(),
        });
        self.live += 1;
    }

    pub(super) const fn sees_all_accesses(&self) -> bool {
        self.users.is_none()
    }

    /// A fingerprint of where all threads are.
    pub(super) fn fingerprint(&self) -> u64 {
        self.threads.iter().map(|t| mix(t.past, 5)).fold(0, u64::wrapping_add)
    }

    /// A fingerprint of where those are that are left, if these of them cannot go on.
    pub(super) fn fingerprint_of_blocked(&self, is_blocked: impl Fn(usize) -> bool) -> u64 {
        let left = self.threads.iter().enumerate().filter(|(_, t)| !t.ended);
        left.map(|(ix, t)| mix(t.past, u64::from(is_blocked(ix)) + 29)).fold(31, u64::wrapping_add)
    }

    /// A fingerprint of which futexes others than this thread wait for.
    fn fingerprint_of_waits(&self, me: usize) -> u64 {
        let others = self.threads.iter().enumerate().filter(|(ix, t)| *ix != me && !t.ended);
        let waits = others.map(|(_, t)| {
            let about = t.waits.map_or(t.about, |waits| UpcomingOperation::Futex(waits.object));
            t.id.path().iter().fold(about.fingerprint(), |id, &nth| mix(id, nth.into()))
        });
        waits.fold(0, u64::wrapping_add)
    }

    // What the objects are like.

    pub(super) fn is_odd(&self, addr: u64) -> bool {
        self.odd.contains_key(&addr)
    }

    /// Whether it is a mutex that was destroyed.
    pub(super) fn is_destroyed(&self, lock: u64) -> bool {
        self.destroyed.contains_key(&lock)
    }

    /// Whether it is a block that was freed already.
    pub(super) fn is_freed(&self, block: u64) -> bool {
        self.freed.contains_key(&block)
    }

    pub(super) fn holder(&self, lock: u64) -> Option<(usize, u32)> {
        self.locks.get(&lock).copied()
    }

    pub(super) fn writer(&self, lock: u64) -> Option<usize> {
        self.writers.get(&lock).copied()
    }

    /// Whether others may have to wait for a lock of this thread's.
    pub(super) fn holds_locks(&self, thread: usize) -> bool {
        !self.threads[thread].holds.is_empty() || self.writers.values().any(|&writer| writer == thread)
    }

    pub(super) fn readers(&self, lock: u64) -> u64 {
        self.readers.get(&lock).copied().unwrap_or(0)
    }

    pub(super) fn count(&self, semaphore: u64) -> Option<u64> {
        self.counts.get(&semaphore).copied()
    }

    /// The barrier's round, and whether who arrives now is its last; none if it is not known how many there are.
    pub(super) fn arrival(&self, barrier: u64) -> Option<(u64, bool)> {
        let size = *self.sizes.get(&barrier)?;
        let (arrived, round) = self.barriers.get(&barrier).map_or((0, 0), |b| (b.arrived, b.round));
        Some((round, arrived + 1 >= size))
    }

    pub(super) fn is_over(&self, barrier: u64, round: u64) -> bool {
        self.barriers.get(&barrier).is_some_and(|b| b.round > round)
    }

    pub(super) fn once(&self, control: u64) -> Option<Once> {
        self.once.get(&control).copied()
    }

    /// Whether a thread that waits was woken.
    pub(super) fn is_woken(&self, waits: &Waits) -> bool {
        waits.granted.is_some() || self.wake_up(waits).is_some()
    }

    fn wake_up(&self, waits: &Waits) -> Option<usize> {
        self.wake_ups.iter().position(|w| w.object == waits.object && w.at > waits.arrival)
    }

    /// The event that wakes a thread that goes on now.
    pub(super) fn waker(&self, waits: &Waits) -> Option<u64> {
        waits.granted.or_else(|| self.wake_up(waits).map(|at| self.wake_ups[at].event))
    }

    /// How many wait at an object without a wake-up of their own, and how many of those have one on its way.
    pub(super) fn unserved(&self, object: u64) -> (u64, u64) {
        let waiting = self.threads.iter().filter_map(|t| t.waits.as_ref());
        let unserved = waiting.filter(|w| w.object == object && w.granted.is_none()).count();
        let is_pending = self.wake_ups.iter().filter(|w| w.object == object).count();
        (unserved as u64, is_pending as u64)
    }

    /// What a thread finds that updates memory.
    pub(super) fn found(&self, event: &Event) -> u64 {
        let content = || self.memory.content(event.addr, event.size);
        if self.sees_all_accesses() {
            self.memory.value(event.addr, event.size).map_or_else(content, |value| mix(value, 7))
        } else {
            content()
        }
    }

    /// Whether an access tells what stands there. What nobody is known to have written to a thread's own stack may
    /// be left over from anything.
    pub(super) fn reveals_value(&self, event: &Event) -> bool {
        matches!(event.op, Op::Read | Op::Write | Op::AtomicLoad)
            && event.size <= 8
            && !event.flags.has(Flags::FAILED)
            && (!event.flags.has(Flags::OWN_STACK) || self.memory.is_written(event.addr, event.size))
    }

    /// The past of who used an object before, where that matters.
    pub(super) fn user(&self, addr: u64) -> u64 {
        self.users.as_ref().map_or(23, |users| users.get(&addr).copied().unwrap_or(0))
    }

    /// What decides where a thread is given memory, beside its past.
    pub(super) fn heap(&self, thread: ThreadIx) -> u64 {
        if self.threads[thread.index()].allocates { 0 } else { self.heaps }
    }

    // What happens.

    /// What a thread finds when it does this.
    fn seen(&self, event: &Event, site: Site) -> u64 {
        let content = || self.memory.content(event.addr, event.size.min(LARGE));
        let seen = match event.op {
            Op::Read if !self.reveals_value(event) => mix(content(), self.carried(event, site)),
            Op::AtomicLoad if event.size > 8 => content(),
            Op::Read | Op::AtomicLoad | Op::SemGet | Op::FutexWake => event.value,
            // What is left tells of what was found, also where it is not known who wrote that.
            Op::AtomicRmw if event.size <= 8 => mix(self.found(event), event.value),
            Op::AtomicRmw => self.found(event),
            Op::AtomicCas if event.flags.has(Flags::FAILED) => event.value,
            Op::Alloc => event.addr,
            // The C library looks at what it is given back.
            Op::Free => event.size.into(),
            Op::BarrierArrive => self.arrival(event.addr).is_some_and(|(_, last)| last).into(),
            Op::Join => {
                let target = self.threads.get(event.value as usize);
                // What it did shows in memory, if all accesses are told; and what it gave back.
                target.map_or(0, |target| if self.sees_all_accesses() { target.result } else { target.past })
            }
            _ => 0,
        };
        let Some(users) = &self.users else { return seen };
        let user = |addr: u64| users.get(&addr).copied().unwrap_or(0);
        match event.op {
            Op::Read | Op::Write => seen,
            Op::CondWait => mix(mix(seen, user(event.addr)), user(event.value)),
            Op::CondWake => {
                let mutex = self.threads[event.thread.index()].waits.and_then(|waits| waits.mutex);
                mix(mix(seen, user(event.addr)), user(mutex.unwrap_or(0)))
            }
            _ if event.addr != 0 => mix(seen, user(event.addr)),
            _ => seen,
        }
    }

    /// What the reads now find that are made together with this access.
    fn carried(&self, event: &Event, site: Site) -> u64 {
        let (from, reads) = &self.threads[event.thread.index()].carried;
        let reads = reads.iter().filter(|_| *from == site);
        reads.fold(0, |fingerprint, &(addr, size)| {
            mix(fingerprint, self.memory.content(addr, size.min(LARGE)))
        })
    }

    /// One more event.
    pub(super) fn apply(&mut self, event: &Event, site: Site) {
        self.apply_unseen(event, site);
        self.events += 1;
    }

    /// What would be one more event, but is none.
    pub(super) fn apply_unseen(&mut self, event: &Event, site: Site) {
        const WENT: u8 = Flags::FAILED.0 | Flags::TIMED_OUT.0 | Flags::SPURIOUS.0 | Flags::CANCELLED.0;
        let me = event.thread.index();
        let before = self.threads[me].past;
        let seen = self.seen(event, site);
        let operation = u64::from(event.op as u8) << 8 | u64::from(event.flags.0 & WENT);
        let place = mix(site.offset, site.module.0.into());
        let past = mix(mix(mix(before, operation), place), seen);
        let writer = mix(mix(before, self.carried(event, site)), 11);
        let mutex = self.threads[me].waits.and_then(|waits| waits.mutex);
        self.change(event, writer, past);
        self.carry(event, site);
        (self.threads[me].past, self.threads[me].new) = (past, false);
        if let Some(users) = &mut self.users
            && !matches!(event.op, Op::Read | Op::Write | Op::AtomicLoad)
        {
            let other = if event.op == Op::CondWait { Some(event.value) } else { mutex };
            for addr in [Some(event.addr), other].into_iter().flatten().filter(|&addr| addr != 0) {
                users.insert(addr, past);
            }
        }
        if event.op == Op::Alloc && !std::mem::replace(&mut self.threads[me].allocates, true) {
            let thread_fingerprint =
                self.threads[me].id.path().iter().fold(0, |fingerprint, &nth| mix(fingerprint, nth.into()));
            self.heaps = mix(self.heaps, thread_fingerprint);
        }
        if let Some(hidden_dependence) = self.known.hidden_dependences.get(&(event.op, site)) {
            let others = match hidden_dependence {
                HiddenDependence::Order => 0,
                HiddenDependence::Waits => self.fingerprint_of_waits(me),
                HiddenDependence::All => self.fingerprint(),
            };
            let past = mix(mix(self.threads[me].past, self.unseen), others);
            self.threads[me].past = past;
            self.unseen = past;
        }
    }

    /// Whether this thread is the only one.
    pub(super) fn is_sole_runner(&self, thread: ThreadIx) -> bool {
        self.live == 1 && !self.threads[thread.index()].ended
    }

    /// A thread is alone: it may do anything, and nobody is told. All of it follows from what there is now.
    pub(super) fn sole_runner(&mut self, me: usize) {
        let others = if self.sees_all_accesses() { 0 } else { self.fingerprint() };
        let past = mix(mix(self.threads[me].past, self.memory.fingerprint()), mix(self.heaps, others));
        self.threads[me].past = past;
        self.memory.reset(past);
    }

    fn carry(&mut self, event: &Event, site: Site) {
        let carried = &mut self.threads[event.thread.index()].carried;
        if event.op == Op::Read {
            if carried.0 != site {
                carried.1.clear();
            }
            // No function of `memcpy`'s kin reads more than two places.
            if carried.1.len() == 2 {
                carried.1.remove(0);
            }
            carried.0 = site;
            carried.1.push((event.addr, event.size));
        } else {
            carried.1.clear();
        }
    }

    /// What it does to memory and to objects.
    fn change(&mut self, event: &Event, writer: u64, past: u64) {
        let Event { addr, value, size, .. } = *event;
        let me = event.thread.index();
        let failed = event.flags.has(Flags::FAILED) || event.flags.has(Flags::CANCELLED);
        let done = !failed && !event.flags.has(Flags::TIMED_OUT);
        match event.op {
            Op::Write if done => {
                match self.known.written.get(&writer).copied().flatten().filter(|_| self.sees_all_accesses())
                {
                    Some(value) => self.memory.write_value(addr, size, value),
                    None => self.memory.write(addr, size.min(LARGE), writer),
                }
                if event.flags.has(Flags::OWN_STACK) {
                    self.threads[me].own.push((addr, size.min(LARGE)));
                }
            }
            // Also what is only read is known from now on, whoever wrote it.
            Op::AtomicStore | Op::AtomicRmw | Op::AtomicCas | Op::AtomicLoad if size <= 8 => {
                self.memory.write_value(addr, size, value);
            }
            Op::FutexWait => {
                self.memory.write_value(addr, 4, value);
                if done {
                    self.wait(me, addr, None);
                }
            }
            Op::AtomicStore | Op::AtomicRmw | Op::AtomicCas if done => self.memory.write(addr, size, writer),
            Op::Alloc if done => drop(self.freed.remove(&addr)),
            Op::Free => {
                self.memory.forget(addr, size.min(LARGE));
                self.freed.insert(addr, ());
            }
            Op::Lock | Op::TryLock if done => self.lock(addr, me),
            Op::Unlock if done => self.unlock(addr),
            Op::LockInit | Op::RwInit if done => {
                self.odd.remove(&addr);
                self.destroyed.remove(&addr);
                self.locks.remove(&addr);
                self.readers.remove(&addr);
                self.writers.remove(&addr);
            }
            Op::LockDestroy if done => drop(self.destroyed.insert(addr, ())),
            Op::LockDestroy => {}
            Op::RwDestroy | Op::CondDestroy | Op::SemDestroy | Op::BarrierDestroy => {
                self.odd.insert(addr, ());
            }
            Op::CondInit => drop(self.odd.remove(&addr)),
            Op::ReadLock | Op::TryReadLock if done => *self.readers.entry(addr).or_default() += 1,
            Op::WriteLock | Op::TryWriteLock if done => drop(self.writers.insert(addr, me)),
            Op::RwUnlock if done && value == 1 => drop(self.writers.remove(&addr)),
            Op::RwUnlock if done => {
                let readers = self.readers.entry(addr).or_default();
                *readers = readers.saturating_sub(1);
            }
            Op::CondWait if done => {
                self.unlock(value);
                self.wait(me, addr, Some(value));
            }
            Op::CondWake | Op::FutexWoken => self.wake(me, done),
            Op::Signal | Op::FutexWake => {
                for _ in 0..value {
                    self.clock += 1;
                    self.wake_ups.push(WakeUp { object: addr, at: self.clock, event: self.events });
                }
            }
            Op::Broadcast => {
                let number = self.events;
                let waiting = self.threads.iter_mut().filter_map(|t| t.waits.as_mut());
                for waits in waiting.filter(|w| w.object == addr && w.granted.is_none()) {
                    waits.granted = Some(number);
                }
                self.wake_ups.retain(|w| w.object != addr);
            }
            Op::SemInit | Op::SemPost | Op::SemWait | Op::SemTryWait if done => {
                self.counts.insert(addr, value);
                if event.op == Op::SemInit {
                    self.odd.remove(&addr);
                }
            }
            Op::BarrierInit if done => {
                self.odd.remove(&addr);
                self.sizes.insert(addr, value);
                self.barriers.remove(&addr);
            }
            Op::BarrierArrive => {
                let size = self.sizes.get(&addr).copied().unwrap_or(u64::MAX);
                let barrier = self.barriers.entry(addr).or_default();
                self.threads[me].round = barrier.round;
                barrier.arrived += 1;
                if barrier.arrived >= size {
                    (barrier.arrived, barrier.round) = (0, barrier.round + 1);
                }
            }
            Op::OnceBegin => {
                self.once.insert(addr, Once::Running);
                self.memory.write(addr, 4, mix(addr, 13));
            }
            Op::OnceEnd => {
                self.once.insert(addr, if done { Once::Done } else { Once::New });
                self.memory.write(addr, 4, mix(addr, if done { 17 } else { 19 }));
            }
            Op::Create if done => {
                let local = &mut self.threads[me];
                local.children += 1;
                let id = local.id.child(local.children);
                self.add(id, past);
            }
            Op::End => {
                self.threads[me].result = value;
                self.end(me);
            }
            _ => {}
        }
    }

    fn lock(&mut self, lock: u64, me: usize) {
        let (holder, depth) = self.locks.entry(lock).or_insert((me, 0));
        *holder = me;
        *depth += 1;
        if *depth == 1 {
            self.threads[me].holds.push(lock);
        }
    }

    fn unlock(&mut self, lock: u64) {
        let Some((holder, depth)) = self.locks.get_mut(&lock) else { return };
        *depth -= 1;
        if *depth == 0 {
            let holder = *holder;
            self.locks.remove(&lock);
            self.threads[holder].holds.retain(|&held| held != lock);
        }
    }

    /// A wait begins.
    fn wait(&mut self, me: usize, object: u64, mutex: Option<u64>) {
        self.clock += 1;
        self.threads[me].waits = Some(Waits { object, mutex, arrival: self.clock, granted: None });
    }

    /// A wait is over.
    fn wake(&mut self, me: usize, woken: bool) {
        let Some(waits) = self.threads[me].waits.take() else { return };
        if woken && waits.granted.is_none() {
            let at = self.wake_up(&waits);
            at.map(|at| self.wake_ups.remove(at));
        }
        if let Some(mutex) = waits.mutex {
            self.lock(mutex, me);
        }
    }

    fn end(&mut self, me: usize) {
        let local = &mut self.threads[me];
        local.ended = true;
        let (held, own) = (std::mem::take(&mut local.holds), std::mem::take(&mut local.own));
        // A robust mutex is free now, and another is lost for ever.
        self.odd.extend(held.into_iter().map(|lock| (lock, ())));
        // Nobody looks at a stack that is gone.
        own.into_iter().for_each(|(addr, size)| self.memory.forget(addr, size));
        self.live -= 1;
    }

    /// The thread with this name.
    pub(super) fn resolve_thread(&self, id: &ThreadId) -> Option<ThreadIx> {
        self.threads.iter().position(|t| t.id == *id).map(|ix| ThreadIx(ix as u16))
    }
}
