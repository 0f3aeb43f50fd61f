//! Executes a program under a plan.

use super::{Ins, Program};
use std::collections::HashMap;
use unsnarl_model::{
    Action, EnabledThreads, Event, Flags, Limit, Module, ModuleIx, Op, Order, Outcome, OutcomeKind, Plan,
    Program as Started, Site, SiteIx, Thread as Simulated, ThreadId, ThreadIx, Trace, Wait,
};
use unsnarl_sched::{Pick, Picker, PrefixSteps, RunView, SpinDetector, ThreadSet, changes_nothing};

/// Fruitless reads before a thread of the papers' examples counts as spinning.
const SPINS: u32 = 2;

pub(super) struct Machine<'p> {
    program: &'p Program,
    plan: &'p Plan,
    threads: Vec<Thread>,
    current: ThreadIx,
    ready: ThreadSet,
    by_timeout: ThreadSet,
    events: Vec<Event>,
    /// The threads that were enabled at each event.
    choices: Vec<EnabledThreads>,
    sites: Vec<Site>,
    vars: HashMap<u8, i64>,
    locks: HashMap<u8, usize>,
    readers: HashMap<u8, u64>,
    writers: HashMap<u8, usize>,
    counts: HashMap<u8, u64>,
    arrived: HashMap<u8, u64>,
    rounds: HashMap<u8, u64>,
    wake_ups: Vec<WakeUp>,
    clock: u64,
    outcome: Option<Outcome>,
}

struct WakeUp {
    cond: u8,
    at: u64,
    event: u64,
}

struct Thread {
    id: ThreadId,
    list: usize,
    children: u32,
    pc: usize,
    register: i64,
    stage: Stage,
    arrival: u64,
    granted: Option<u64>,
    spin_detector: SpinDetector,
    /// The latest variable read, its value, and the number of consecutive such reads.
    fruitless: (usize, i64, u32),
}

/// The position of a thread within an instruction or its lifetime.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Start,
    Ready,
    /// Waits for a wake-up on a condition.
    Waiting,
    /// Has arrived at a barrier in this round.
    Inside(u64),
    End,
    Ended,
}

impl<'p> Machine<'p> {
    pub(super) fn new(program: &'p Program, plan: &'p Plan) -> Self {
        let mut machine = Self {
            program,
            plan,
            threads: Vec::new(),
            current: ThreadIx::MAIN,
            ready: ThreadSet::new(),
            by_timeout: ThreadSet::new(),
            events: Vec::new(),
            choices: Vec::new(),
            sites: Vec::new(),
            vars: HashMap::new(),
            locks: HashMap::new(),
            readers: HashMap::new(),
            writers: HashMap::new(),
            counts: HashMap::new(),
            arrived: HashMap::new(),
            rounds: HashMap::new(),
            wake_ups: Vec::new(),
            clock: 0,
            outcome: None,
        };
        machine.add(ThreadId::main(), 0);
        machine.threads[0].stage = Stage::Ready;
        if program.bare {
            for list in 1..program.threads.len() {
                machine.add(ThreadId::main().child(list as u32), list);
                machine.threads[list].stage = Stage::Ready;
            }
        }
        for thread in 0..machine.threads.len() {
            machine.check_interrupt(thread);
        }
        machine
    }

    fn add(&mut self, id: ThreadId, list: usize) {
        self.threads.push(Thread {
            id,
            list,
            children: 0,
            pc: 0,
            register: 0,
            stage: Stage::Start,
            arrival: 0,
            granted: None,
            spin_detector: SpinDetector::default(),
            fruitless: (0, 0, 0),
        });
    }

    pub(super) fn run(self) -> Trace {
        self.run_with_choices().0
    }

    /// Runs the program; returns also the threads that were enabled at each event.
    pub(super) fn run_with_choices(mut self) -> (Trace, Vec<EnabledThreads>) {
        let prefix = PrefixSteps {
            segments: self.plan.prefix.segments.clone(),
            actions: self.plan.prefix.actions.clone(),
        };
        let mut picker = Picker::new(prefix, self.plan.prefix.fidelity, self.plan.tail, self.plan.seed);
        while self.outcome.is_none() {
            self.classify();
            if self.ready.is_empty() && self.by_timeout.is_empty() {
                self.stuck();
                break;
            }
            if self.events.len() as u64 >= self.plan.limits.events {
                self.end(
                    OutcomeKind::Undecided(Limit::Events),
                    None,
                    None,
                    "the limit of events was reached",
                );
                break;
            }
            let Pick::Run(thread) = picker.pick(&self) else {
                self.end(
                    OutcomeKind::Undecided(Limit::Plan),
                    None,
                    None,
                    "the plan ended before the program did",
                );
                break;
            };
            let preempts = thread != self.current
                && self.ready.contains(self.current)
                && !self.pending(self.current.index()).op.yields();
            let by_timeout = !self.ready.contains(thread);
            self.current = thread;
            let at = self.events.len();
            self.note_choices();
            self.step(thread.index(), by_timeout);
            if preempts {
                self.events[at].flags = self.events[at].flags | Flags::PREEMPTS;
            }
            self.check_interrupt(thread.index());
            if self.outcome.is_none() {
                self.find_wait_cycle(thread.index());
            }
        }
        let choices = std::mem::take(&mut self.choices);
        (self.trace(), choices)
    }

    fn note_choices(&mut self) {
        let bits = |set: &ThreadSet| set.iter().fold(0, |bits, thread| bits | 1 << thread.index());
        let (ready, by_timeout) = (bits(&self.ready), bits(&self.by_timeout));
        self.choices.push(EnabledThreads { can_run: ready | by_timeout, yields: by_timeout });
    }

    fn ins(&self, thread: usize) -> Option<Ins> {
        let t = &self.threads[thread];
        self.program.threads[t.list].get(t.pc).copied()
    }

    /// Returns whether the thread's plain accesses are no events, because it is alone.
    fn is_unseen(&self, thread: usize) -> bool {
        let mut others = self.threads.iter().enumerate().filter(|&(ix, _)| ix != thread);
        !self.program.sole_accesses_are_events && others.all(|(_, other)| other.stage == Stage::Ended)
    }

    /// Executes instructions without events, up to the next one that is an event.
    fn check_interrupt(&mut self, thread: usize) {
        if self.threads[thread].stage != Stage::Ready {
            return;
        }
        for _ in 0..1000 {
            match self.ins(thread) {
                Some(Ins::Goto(to)) => self.threads[thread].pc = to as usize,
                Some(Ins::Unless(value, to)) => {
                    let t = &mut self.threads[thread];
                    t.pc = if t.register == value { t.pc + 1 } else { to as usize };
                }
                Some(Ins::Read(var)) if self.is_unseen(thread) => {
                    self.threads[thread].register = self.vars.get(&var).copied().unwrap_or(0);
                    self.threads[thread].pc += 1;
                }
                Some(Ins::Write(var, value)) if self.is_unseen(thread) => {
                    self.vars.insert(var, value);
                    self.threads[thread].pc += 1;
                }
                Some(Ins::Fail(message)) => {
                    let site = self.site(thread);
                    return self.end(OutcomeKind::Assertion, Some(thread), Some(site), message);
                }
                Some(_) => return,
                None => {
                    self.threads[thread].stage = if self.program.bare { Stage::Ended } else { Stage::End };
                    return;
                }
            }
        }
        panic!("a loop without events");
    }

    fn site(&self, thread: usize) -> Site {
        let t = &self.threads[thread];
        let place = match t.stage {
            Stage::Start => 900,
            Stage::End | Stage::Ended => 901,
            _ => t.pc,
        };
        Site { module: ModuleIx(0), offset: (t.list * 1000 + place) as u64 }
    }

    fn pending(&self, thread: usize) -> Action {
        let op = match (self.threads[thread].stage, self.ins(thread)) {
            (Stage::Start, _) => Op::Start,
            (Stage::Waiting, _) => Op::CondWake,
            (Stage::Inside(_), _) => Op::BarrierLeave,
            (Stage::End | Stage::Ended, _) | (_, None) => Op::End,
            (Stage::Ready, Some(ins)) => op_of(ins),
        };
        Action { op, site: self.site(thread) }
    }

    fn classify(&mut self) {
        for thread in 0..self.threads.len() {
            let (now, later) = self.readiness(thread);
            self.ready.set(ThreadIx(thread as u16), now);
            self.by_timeout.set(ThreadIx(thread as u16), !now && later);
        }
    }

    fn is_free(&self, lock: u8) -> bool {
        !self.locks.contains_key(&lock)
    }

    /// Returns whether the thread is enabled now, and whether only by a timeout.
    fn readiness(&self, thread: usize) -> (bool, bool) {
        let t = &self.threads[thread];
        match (t.stage, self.ins(thread)) {
            (Stage::Ended, _) => (false, false),
            (Stage::Start | Stage::End, _) | (_, None) => (true, false),
            (Stage::Waiting, Some(Ins::Wait(cond, lock) | Ins::TimedWait(cond, lock))) => {
                let woken = t.granted.is_some() || self.wake_up(cond, t.arrival).is_some();
                let timed = matches!(self.ins(thread), Some(Ins::TimedWait(..)));
                (woken && self.is_free(lock), timed && self.is_free(lock))
            }
            (Stage::Inside(round), Some(Ins::Barrier(b))) => {
                (self.rounds.get(&b).copied().unwrap_or(0) > round, false)
            }
            (_, Some(ins)) => match ins {
                Ins::Lock(lock) => (self.is_free(lock), false),
                Ins::TimedLock(lock) => (self.is_free(lock), true),
                Ins::ReadLock(lock) => (!self.writers.contains_key(&lock), false),
                Ins::WriteLock(lock) => (self.lets_write(lock), false),
                Ins::SemWait(s) => (self.count(s) > 0, false),
                Ins::Join(list) => (self.thread_of(list).is_some_and(|t| t.stage == Stage::Ended), false),
                Ins::Sleep => (false, true),
                _ => (true, false),
            },
        }
    }

    fn thread_of(&self, list: u8) -> Option<&Thread> {
        self.threads.iter().find(|t| t.list == list as usize)
    }

    fn lets_write(&self, lock: u8) -> bool {
        !self.writers.contains_key(&lock) && self.readers.get(&lock).copied().unwrap_or(0) == 0
    }

    fn count(&self, semaphore: u8) -> u64 {
        self.counts.get(&semaphore).copied().unwrap_or(self.program.count)
    }

    fn wake_up(&self, cond: u8, arrival: u64) -> Option<usize> {
        self.wake_ups.iter().position(|w| w.cond == cond && w.at > arrival)
    }

    fn log(&mut self, thread: usize, op: Op, flags: Flags, addr: u64, value: u64) {
        let site = self.site(thread);
        let ix = self.sites.iter().position(|&known| known == site).unwrap_or_else(|| {
            self.sites.push(site);
            self.sites.len() - 1
        });
        let size = if op.is_plain_access() || op.is_atomic() { 8 } else { 0 };
        self.threads[thread].spin_detector.note(changes_nothing(op, flags), (site.offset, addr, value));
        self.events.push(Event {
            thread: ThreadIx(thread as u16),
            op,
            flags,
            order: if op.is_atomic() { Order::SeqCst } else { Order::Relaxed },
            site: SiteIx(ix as u32),
            context: 0,
            size,
            addr,
            value,
        });
    }

    /// Executes one event.
    fn step(&mut self, thread: usize, by_timeout: bool) {
        let stage = self.threads[thread].stage;
        match (stage, self.ins(thread)) {
            (Stage::Start, _) => {
                self.log(thread, Op::Start, Flags::NONE, 0, 0);
                self.threads[thread].stage = Stage::Ready;
            }
            (Stage::End, _) => {
                self.log(thread, Op::End, Flags::NONE, 0, 0);
                self.threads[thread].stage = Stage::Ended;
            }
            (Stage::Waiting, Some(Ins::Wait(cond, lock) | Ins::TimedWait(cond, lock))) => {
                let arrival = self.threads[thread].arrival;
                let granted = self.threads[thread].granted.take();
                let waker = match granted {
                    _ if by_timeout => None,
                    Some(event) => Some(event),
                    None => self.wake_up(cond, arrival).map(|at| self.wake_ups.remove(at).event),
                };
                self.locks.insert(lock, thread);
                let timed = matches!(self.ins(thread), Some(Ins::TimedWait(..)));
                let bounded = if timed { Flags::BOUNDED } else { Flags::NONE };
                let flags = if by_timeout { bounded | Flags::TIMED_OUT } else { bounded };
                self.log(thread, Op::CondWake, flags, cond_addr(cond), lock_addr(lock));
                if let Some(event) = self.events.last_mut() {
                    *event = event.with_waker(waker);
                }
                self.threads[thread].register = by_timeout.into();
                self.next(thread);
            }
            (Stage::Inside(round), Some(Ins::Barrier(b))) => {
                self.log(thread, Op::BarrierLeave, Flags::NONE, barrier_addr(b), round);
                self.next(thread);
            }
            (_, Some(ins)) => self.execute(thread, ins),
            (_, None) => {}
        }
    }

    fn next(&mut self, thread: usize) {
        self.threads[thread].stage = Stage::Ready;
        self.threads[thread].pc += 1;
    }

    fn execute(&mut self, thread: usize, ins: Ins) {
        let op = op_of(ins);
        let done = |yes: bool| if yes { Flags::NONE } else { Flags::FAILED };
        let mut register = None;
        match ins {
            Ins::Read(var) => {
                let value = self.vars.get(&var).copied().unwrap_or(0);
                self.log(thread, op, Flags::NONE, var_addr(var), value as u64);
                let pc = self.threads[thread].pc;
                let (last_pc, last_value, times) = self.threads[thread].fruitless;
                let again = (last_pc, last_value) == (pc, value);
                self.threads[thread].fruitless = (pc, value, if again { times + 1 } else { 1 });
                register = Some(value);
            }
            Ins::Write(var, value) => {
                let old = self.vars.insert(var, value).unwrap_or(0);
                self.log(thread, op, Flags::NONE, var_addr(var), old as u64);
            }
            Ins::Add(var, more) => {
                let value = self.vars.get(&var).copied().unwrap_or(0) + more;
                self.vars.insert(var, value);
                self.log(thread, op, Flags::NONE, var_addr(var), value as u64);
                register = Some(value);
            }
            Ins::Lock(lock) => {
                self.locks.insert(lock, thread);
                self.log(thread, op, Flags::NONE, lock_addr(lock), 1);
            }
            Ins::TimedLock(lock) => {
                let free = self.is_free(lock);
                if free {
                    self.locks.insert(lock, thread);
                }
                let flags = if free { Flags::BOUNDED } else { Flags::BOUNDED | Flags::TIMED_OUT };
                self.log(thread, op, flags, lock_addr(lock), free.into());
                register = Some((!free).into());
            }
            Ins::TryLock(lock) => {
                let free = self.is_free(lock);
                if free {
                    self.locks.insert(lock, thread);
                }
                self.log(thread, op, done(free), lock_addr(lock), free.into());
                register = Some(free.into());
            }
            Ins::Unlock(lock) => {
                let held = self.locks.remove(&lock).is_some();
                self.log(thread, op, done(held), lock_addr(lock), 0);
            }
            Ins::ReadLock(lock) => {
                *self.readers.entry(lock).or_default() += 1;
                self.log(thread, op, Flags::NONE, rw_addr(lock), 0);
            }
            Ins::WriteLock(lock) => {
                self.writers.insert(lock, thread);
                self.log(thread, op, Flags::NONE, rw_addr(lock), 0);
            }
            Ins::TryWriteLock(lock) => {
                let free = self.lets_write(lock);
                if free {
                    self.writers.insert(lock, thread);
                }
                self.log(thread, op, done(free), rw_addr(lock), 0);
                register = Some(free.into());
            }
            Ins::RwUnlock(lock) => {
                let wrote = self.writers.get(&lock) == Some(&thread);
                let mut held = wrote;
                if wrote {
                    self.writers.remove(&lock);
                } else if let Some(readers) = self.readers.get_mut(&lock).filter(|readers| **readers > 0) {
                    *readers -= 1;
                    held = true;
                }
                self.log(thread, op, done(held), rw_addr(lock), wrote.into());
            }
            Ins::Wait(cond, lock) | Ins::TimedWait(cond, lock) => {
                self.locks.remove(&lock);
                self.clock += 1;
                self.threads[thread].arrival = self.clock;
                self.threads[thread].granted = None;
                self.log(thread, op, Flags::NONE, cond_addr(cond), lock_addr(lock));
                self.threads[thread].stage = Stage::Waiting;
                return;
            }
            Ins::Signal(cond) => {
                let woken = self.unserved(cond).len() > self.pending_wake_ups(cond);
                if woken {
                    self.clock += 1;
                    let event = self.events.len() as u64;
                    self.wake_ups.push(WakeUp { cond, at: self.clock, event });
                }
                self.log(thread, op, Flags::NONE, cond_addr(cond), woken.into());
            }
            Ins::Broadcast(cond) => {
                let waiting = self.unserved(cond);
                let event = self.events.len() as u64;
                for &waiter in &waiting {
                    self.threads[waiter].granted = Some(event);
                }
                self.wake_ups.retain(|w| w.cond != cond);
                self.log(thread, op, Flags::NONE, cond_addr(cond), waiting.len() as u64);
            }
            Ins::SemWait(s) | Ins::SemTryWait(s) => {
                let some = self.count(s) > 0;
                let left = self.count(s).saturating_sub(1);
                self.counts.insert(s, left);
                self.log(thread, op, done(some), sem_addr(s), left);
                register = Some(some.into());
            }
            Ins::SemPost(s) => {
                let count = self.count(s) + 1;
                self.counts.insert(s, count);
                self.log(thread, op, Flags::NONE, sem_addr(s), count);
            }
            Ins::Barrier(b) => {
                let round = *self.rounds.entry(b).or_default();
                let arrived = self.arrived.entry(b).or_default();
                *arrived += 1;
                if *arrived >= self.program.barrier {
                    *arrived = 0;
                    self.rounds.insert(b, round + 1);
                }
                self.log(thread, op, Flags::NONE, barrier_addr(b), round);
                self.threads[thread].stage = Stage::Inside(round);
                return;
            }
            Ins::Create(list) => {
                self.threads[thread].children += 1;
                let id = self.threads[thread].id.child(self.threads[thread].children);
                let child = self.threads.len() as u64;
                self.add(id, list.into());
                self.log(thread, op, Flags::NONE, 0, child);
            }
            Ins::Join(list) => {
                let child = self.threads.iter().position(|t| t.list == list as usize).unwrap_or(0);
                self.log(thread, op, Flags::NONE, 0, child as u64);
            }
            Ins::Yield | Ins::Sleep => self.log(thread, op, Flags::NONE, 0, 0),
            Ins::Goto(_) | Ins::Unless(..) | Ins::Fail(_) => unreachable!("not an event"),
        }
        if !matches!(ins, Ins::Read(_) | Ins::Yield | Ins::Sleep) {
            self.threads[thread].fruitless.2 = 0;
        }
        if let Some(register) = register {
            self.threads[thread].register = register;
        }
        self.next(thread);
    }

    /// Returns the threads that wait on a condition without a wake-up of their own.
    fn unserved(&self, cond: u8) -> Vec<usize> {
        let here =
            |t: usize| matches!(self.ins(t), Some(Ins::Wait(c, _) | Ins::TimedWait(c, _)) if c == cond);
        let waits = |t: usize| self.threads[t].stage == Stage::Waiting && self.threads[t].granted.is_none();
        (0..self.threads.len()).filter(|&t| waits(t) && here(t)).collect()
    }

    fn pending_wake_ups(&self, cond: u8) -> usize {
        self.wake_ups.iter().filter(|w| w.cond == cond).count()
    }

    /// A thread that has to wait for a lock may close a cycle: then some threads never continue, whatever the
    /// others do.
    fn find_wait_cycle(&mut self, thread: usize) {
        let mut at = thread;
        for _ in 0..self.threads.len() {
            let holder = match self.ins(at).filter(|_| self.threads[at].stage == Stage::Ready) {
                Some(Ins::Lock(lock)) => self.locks.get(&lock).copied(),
                Some(Ins::ReadLock(lock) | Ins::WriteLock(lock)) => self.writers.get(&lock).copied(),
                _ => None,
            };
            match holder.filter(|&holder| self.threads[holder].stage != Stage::Ended) {
                Some(holder) if holder == thread => {
                    return self.deadlock("threads wait for each other in a cycle");
                }
                Some(holder) => at = holder,
                None => return,
            }
        }
    }

    fn stuck(&mut self) {
        let waiting: Vec<usize> =
            (0..self.threads.len()).filter(|&t| self.threads[t].stage != Stage::Ended).collect();
        if waiting.is_empty() {
            self.outcome = Some(Outcome::exit(0));
            return;
        }
        self.deadlock("no thread can continue");
    }

    fn deadlock(&mut self, message: &str) {
        let cannot = |t: &usize| self.threads[*t].stage != Stage::Ended && !self.readiness(*t).0;
        let waiting: Vec<usize> = (0..self.threads.len()).filter(cannot).collect();
        let sites = waiting.iter().map(|&t| self.site(t));
        let first = sites.min();
        self.end(OutcomeKind::Deadlock, None, first, message);
        let waits = waiting.iter().map(|&t| {
            let Action { op, site } = self.pending(t);
            let (addr, holders) = self.waits_for(t);
            Wait { thread: ThreadIx(t as u16), op, addr, site, holders }
        });
        let waits = waits.collect();
        if let Some(outcome) = &mut self.outcome {
            outcome.waits = waits;
        }
    }

    /// Returns the object that a blocked thread waits for, and its holders.
    fn waits_for(&self, thread: usize) -> (u64, Vec<ThreadIx>) {
        let owner = |t: usize| vec![ThreadIx(t as u16)];
        match self.ins(thread) {
            Some(Ins::Lock(lock) | Ins::TimedLock(lock)) => {
                (lock_addr(lock), self.locks.get(&lock).map_or(Vec::new(), |&t| owner(t)))
            }
            Some(Ins::Wait(cond, _) | Ins::TimedWait(cond, _)) => (cond_addr(cond), Vec::new()),
            Some(Ins::ReadLock(lock) | Ins::WriteLock(lock)) => (rw_addr(lock), Vec::new()),
            Some(Ins::SemWait(s)) => (sem_addr(s), Vec::new()),
            Some(Ins::Barrier(b)) => (barrier_addr(b), Vec::new()),
            Some(Ins::Join(list)) => {
                let target = self.threads.iter().position(|t| t.list == list as usize);
                (0, target.map_or(Vec::new(), owner))
            }
            _ => (0, Vec::new()),
        }
    }

    fn end(&mut self, kind: OutcomeKind, thread: Option<usize>, site: Option<Site>, message: &str) {
        let thread = thread.map(|t| ThreadIx(t as u16));
        self.outcome = Some(Outcome { kind, thread, site, message: message.into(), ..Outcome::exit(0) });
    }

    fn trace(self) -> Trace {
        Trace {
            program: Started { path: "toy".into(), ..Started::default() },
            modules: vec![Module { path: "toy".into(), ..Module::default() }],
            plan: self.plan.clone(),
            threads: self
                .threads
                .iter()
                .map(|t| Simulated { id: t.id.clone(), ..Simulated::default() })
                .collect(),
            sites: self.sites,
            events: self.events,
            outcome: self.outcome.unwrap_or(Outcome::exit(0)),
            ..Trace::default()
        }
    }
}

impl RunView for Machine<'_> {
    fn current(&self) -> ThreadIx {
        self.current
    }

    fn ready(&self) -> &ThreadSet {
        &self.ready
    }

    fn by_timeout(&self) -> &ThreadSet {
        &self.by_timeout
    }

    fn earliest_timeout(&self) -> Option<ThreadIx> {
        self.by_timeout.nth(0)
    }

    fn yields(&self, thread: ThreadIx) -> bool {
        let t = &self.threads[thread.index()];
        let looks = matches!(self.ins(thread.index()), Some(Ins::Read(_)));
        let spins =
            if self.program.bare { looks && t.fruitless.2 >= SPINS } else { t.spin_detector.is_spinning() };
        self.pending(thread.index()).op.yields() || spins
    }

    fn is_about_to(&self, thread: ThreadIx, action: &Action) -> bool {
        self.pending(thread.index()) == *action
    }

    fn conflict(&self, a: ThreadIx, b: ThreadIx) -> bool {
        a != b
    }

    fn resolve_thread(&self, in_plan: ThreadIx) -> Option<ThreadIx> {
        let name = self.plan.prefix.threads.get(in_plan.index())?;
        self.threads.iter().position(|t| t.id == *name).map(|ix| ThreadIx(ix as u16))
    }
}

fn op_of(ins: Ins) -> Op {
    match ins {
        Ins::Read(_) => Op::Read,
        Ins::Write(..) => Op::Write,
        Ins::Add(..) => Op::AtomicRmw,
        Ins::Lock(_) | Ins::TimedLock(_) => Op::Lock,
        Ins::Unlock(_) => Op::Unlock,
        Ins::TryLock(_) => Op::TryLock,
        Ins::ReadLock(_) => Op::ReadLock,
        Ins::WriteLock(_) => Op::WriteLock,
        Ins::TryWriteLock(_) => Op::TryWriteLock,
        Ins::RwUnlock(_) => Op::RwUnlock,
        Ins::Wait(..) | Ins::TimedWait(..) => Op::CondWait,
        Ins::Signal(_) => Op::Signal,
        Ins::Broadcast(_) => Op::Broadcast,
        Ins::SemWait(_) => Op::SemWait,
        Ins::SemTryWait(_) => Op::SemTryWait,
        Ins::SemPost(_) => Op::SemPost,
        Ins::Barrier(_) => Op::BarrierArrive,
        Ins::Create(_) => Op::Create,
        Ins::Join(_) => Op::Join,
        Ins::Yield => Op::Yield,
        Ins::Sleep => Op::Sleep,
        Ins::Goto(_) | Ins::Unless(..) | Ins::Fail(_) => unreachable!("not an event"),
    }
}

fn place(base: u64, nth: u8) -> u64 {
    base + u64::from(nth) * 64
}

fn var_addr(nth: u8) -> u64 {
    0x10000 + u64::from(nth) * 8
}

fn lock_addr(nth: u8) -> u64 {
    place(0x1000, nth)
}

fn rw_addr(nth: u8) -> u64 {
    place(0x2000, nth)
}

fn cond_addr(nth: u8) -> u64 {
    place(0x3000, nth)
}

fn sem_addr(nth: u8) -> u64 {
    place(0x4000, nth)
}

fn barrier_addr(nth: u8) -> u64 {
    place(0x5000, nth)
}
