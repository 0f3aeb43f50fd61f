//! Programs that poll terminate under every policy, and time-outs do not starve the threads that they wait for.

use unsnarl_model::{Action, Fidelity, Flags, Op, Policy, ThreadIx, Timeouts};
use unsnarl_sched::{
    EarlyTimeouts, Pick, Picker, PrefixSteps, Rng, RunProgress, RunView, SpinDetector, ThreadSet, TimedWait,
    changes_nothing,
};

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;

/// A step of a thread. Each is one event, unless stated otherwise.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Does something that others may see.
    Work,
    /// Sets a flag.
    Set(usize),
    /// Loads a flag and jumps if it is not set.
    JumpUnless(usize, usize),
    /// The same under a lock, so that the event looks like progress.
    JumpUnlessLocked(usize, usize),
    Yield,
    Sleep(u64),
    /// Waits for a flag, but not for longer than this.
    TimedWait(usize, u64),
    /// The same; the program fails if time was up.
    MustCome(usize, u64),
    /// Waits for a token and takes it.
    Take(usize),
    /// Adds a token.
    Put(usize),
    /// No event.
    Goto(usize),
}

use Step::*;

#[derive(Default)]
struct Thread {
    steps: Vec<Step>,
    at: usize,
    wait: TimedWait,
    is_waiting: bool,
    spin_detector: SpinDetector,
}

/// A run of a program, with the rules of the runtime.
struct Run {
    threads: Vec<Thread>,
    /// Threads that do not keep the program from ending.
    background: usize,
    current: ThreadIx,
    ready: ThreadSet,
    by_timeout: ThreadSet,
    timeouts: EarlyTimeouts,
    progress: RunProgress,
    flags: [bool; 4],
    tokens: [u32; 4],
    timed_out: bool,
}

impl Run {
    fn new(threads: Vec<Vec<Step>>, background: usize, rule: Timeouts) -> Self {
        let thread = |steps| Thread { steps, ..Thread::default() };
        Self {
            threads: threads.into_iter().map(thread).collect(),
            background,
            current: ThreadIx::MAIN,
            ready: ThreadSet::new(),
            by_timeout: ThreadSet::new(),
            timeouts: EarlyTimeouts::new(rule),
            progress: RunProgress { now: 0, events: 0, fruitless: 0 },
            flags: [false; 4],
            tokens: [0; 4],
            timed_out: false,
        }
    }

    fn step(&self, ix: usize) -> Option<Step> {
        self.threads[ix].steps.get(self.threads[ix].at).copied()
    }

    /// Brings the sets of threads up to date.
    fn classify(&mut self) {
        for ix in 0..self.threads.len() {
            while let Some(Goto(at)) = self.step(ix) {
                self.threads[ix].at = at;
            }
            let id = ThreadIx(ix as u16);
            let deadline = match self.step(ix) {
                Some(Sleep(time)) => Some(time),
                Some(TimedWait(flag, time) | MustCome(flag, time)) if !self.flags[flag] => Some(time),
                _ => None,
            };
            if let Some(time) = deadline.filter(|_| !self.threads[ix].is_waiting) {
                let deadline = self.progress.now + time;
                let wait = &mut self.threads[ix].wait;
                wait.deadline = Some(deadline);
                wait.patience = self.timeouts.patience(self.progress, deadline, wait.early);
                self.threads[ix].is_waiting = true;
                self.timeouts.enter(id);
            }
            if deadline.is_none() && std::mem::take(&mut self.threads[ix].is_waiting) {
                self.timeouts.leave(id);
            }
            self.by_timeout.set(id, deadline.is_some());
            let is_ready = match self.step(ix) {
                Some(Take(token)) => self.tokens[token] > 0,
                Some(_) => deadline.is_none(),
                None => false,
            };
            self.ready.set(id, is_ready);
        }
        if self.timeouts.is_outdated(self.progress, &self.ready) {
            let Self { timeouts, ready, by_timeout, threads, progress, .. } = self;
            let yields = |id: ThreadIx| yields(&threads[id.index()]);
            timeouts.update(*progress, ready, by_timeout, yields, |id| threads[id.index()].wait);
        }
    }

    fn execute(&mut self, id: ThreadIx) {
        let ix = id.index();
        let step = self.step(ix).expect("a thread that can go on");
        let by_time = self.by_timeout.contains(id);
        if by_time {
            let wait = self.threads[ix].wait;
            self.threads[ix].wait.early += u32::from(self.timeouts.expire(self.progress, wait));
            self.progress.now = self.progress.now.max(wait.deadline.unwrap_or(0));
            self.threads[ix].is_waiting = false;
            self.timeouts.leave(id);
            self.timed_out |= matches!(step, MustCome(..));
        }
        let thread = &mut self.threads[ix];
        let at = thread.at;
        thread.at += 1;
        match step {
            Set(flag) => self.flags[flag] = true,
            JumpUnless(flag, target) | JumpUnlessLocked(flag, target) if !self.flags[flag] => {
                thread.at = target;
            }
            Take(token) => self.tokens[token] -= 1,
            Put(token) => self.tokens[token] += 1,
            _ => {}
        }
        let flag = if let JumpUnless(flag, _) = step { u64::from(self.flags[flag]) } else { 0 };
        let fruitless = changes_nothing(op(step), Flags::NONE);
        thread.spin_detector.note(fruitless, (at as u64, 0, flag));
        self.progress.fruitless = if fruitless { self.progress.fruitless + 1 } else { 0 };
        self.progress.events += 1;
        self.progress.now += 100;
        self.current = id;
    }

    /// Runs until the program ends or has made so many events.
    fn run(&mut self, policy: Policy, seed: u64, most: u64) -> &RunProgress {
        let mut picker = Picker::new(PrefixSteps::default(), Fidelity::Exact, policy, seed);
        let foreground = self.threads.len() - self.background;
        self.classify();
        while self.progress.events < most && (0..foreground).any(|ix| self.step(ix).is_some()) {
            let Pick::Run(thread) = picker.pick(self) else { panic!("nobody was picked") };
            self.execute(thread);
            self.classify();
        }
        &self.progress
    }
}

fn yields(thread: &Thread) -> bool {
    let step = thread.steps.get(thread.at);
    step.is_some_and(|&step| op(step).yields()) || thread.spin_detector.is_spinning()
}

const fn op(step: Step) -> Op {
    match step {
        JumpUnless(..) => Op::AtomicLoad,
        Yield => Op::Yield,
        Sleep(_) => Op::Sleep,
        TimedWait(..) | MustCome(..) => Op::CondWake,
        Take(_) => Op::SemWait,
        Put(_) => Op::SemPost,
        Work | Set(_) | JumpUnlessLocked(..) | Goto(_) => Op::Lock,
    }
}

impl RunView for Run {
    fn current(&self) -> ThreadIx {
        self.current
    }

    fn ready(&self) -> &ThreadSet {
        &self.ready
    }

    fn by_timeout(&self) -> &ThreadSet {
        &self.by_timeout
    }

    fn may_expire(&self) -> &ThreadSet {
        self.timeouts.may_expire()
    }

    fn earliest_timeout(&self) -> Option<ThreadIx> {
        self.by_timeout.iter().min_by_key(|id| self.threads[id.index()].wait.deadline)
    }

    fn yields(&self, thread: ThreadIx) -> bool {
        yields(&self.threads[thread.index()])
    }

    fn is_about_to(&self, _thread: ThreadIx, _action: &Action) -> bool {
        false
    }

    fn conflict(&self, _a: ThreadIx, _b: ThreadIx) -> bool {
        true
    }

    fn is_at(&self, thread: ThreadIx, place: u16) -> bool {
        self.threads[thread.index()].at % 3 == usize::from(place)
    }

    fn resolve_thread(&self, in_plan: ThreadIx) -> Option<ThreadIx> {
        Some(in_plan)
    }
}

const POLICIES: [Policy; 7] = [
    Policy::Fair,
    Policy::Random,
    Policy::Pct { depth: 1, steps: 100 },
    Policy::Pct { depth: 3, steps: 1000 },
    Policy::Pos,
    Policy::Race { first: 0, second: 1 },
    Policy::Race { first: 2, second: 2 },
];

/// Does so much, then sets the flag.
fn worker(work: usize) -> Vec<Step> {
    let mut steps = vec![Work; work];
    steps.push(Set(0));
    steps
}

/// Runs the program under all policies; returns the largest number of events and the latest time.
fn worst(program: &[Vec<Step>], background: usize, rule: Timeouts, most: u64) -> (u64, u64) {
    let mut worst = (0, 0);
    for policy in POLICIES {
        for seed in 0..6 {
            let mut run = Run::new(program.to_vec(), background, rule);
            let end = *run.run(policy, seed, most);
            assert!(
                end.events < most,
                "{policy:?}, seed {seed}: {:?}",
                run.threads.iter().map(|t| t.at).collect::<Vec<_>>()
            );
            assert!(!run.timed_out, "{policy:?}, seed {seed}: a long time-out expired");
            worst = (worst.0.max(end.events), worst.1.max(end.now));
        }
    }
    worst
}

#[test]
fn timed_polling_ends_soon() {
    for length in [MS / 10, MS, 5 * MS, 100 * MS, 10 * SECOND] {
        let poller = vec![JumpUnlessLocked(0, 2), Goto(5), TimedWait(0, length), Work, Goto(0)];
        let program = [vec![poller; 3], vec![worker(2_000)]].concat();
        let (events, now) = worst(&program, 0, Timeouts::Fair, 30_000);
        assert!(events >= 2_000 && now < 20 * SECOND, "{length}: {events} events, {now} ns");
    }
}

#[test]
fn sleeping_and_yielding_loops_end() {
    let yielding = vec![JumpUnless(0, 2), Goto(4), Yield, Goto(0)];
    let spinning = vec![JumpUnless(0, 0)];
    let sleeping = vec![JumpUnless(0, 2), Goto(4), Sleep(MS), Goto(0)];
    for rule in [Timeouts::Fair, Timeouts::Late] {
        let pollers = [yielding.clone(), spinning.clone(), sleeping.clone(), sleeping.clone()];
        worst(&[&pollers[..], &[worker(2_000)]].concat(), 0, rule, 200_000);
    }
}

#[test]
fn sleeper_wakes_while_others_poll() {
    let yielding = vec![JumpUnless(0, 2), Goto(4), Yield, Goto(0)];
    let setter = |time| vec![Sleep(time), Set(0)];
    for rule in [Timeouts::Fair, Timeouts::Late] {
        worst(&[yielding.clone(), yielding.clone(), setter(3_600 * SECOND)], 0, rule, 10_000);
    }
    // This poller is not recognised as one: time passes with its events.
    let locking = vec![JumpUnlessLocked(0, 0)];
    worst(&[locking.clone(), locking, setter(10 * SECOND)], 0, Timeouts::Fair, 300_000);
}

#[test]
fn thread_runs_while_others_hand_over_to_each_other() {
    let ping = vec![JumpUnlessLocked(0, 2), Goto(5), Put(0), Take(1), Goto(0), Put(0)];
    let pong = vec![JumpUnlessLocked(0, 2), Goto(5), Take(0), Put(1), Goto(0), Put(1)];
    worst(&[ping.clone(), pong.clone(), worker(500)], 0, Timeouts::Fair, 1_000_000);
    let yielding = vec![JumpUnless(1, 2), Goto(4), Yield, Goto(0), Set(0)];
    worst(&[ping, pong, yielding, vec![Work, Set(1)]], 0, Timeouts::Fair, 1_000_000);
}

#[test]
fn interval_timer_leaves_room_for_the_program() {
    for handler in [1, 50, 300] {
        let timer = [vec![Sleep(MS)], vec![Work; handler], vec![Goto(0)]].concat();
        let (_, now) = worst(&[worker(20_000), timer], 1, Timeouts::Fair, 100_000);
        assert!(now < 10 * SECOND, "{now}");
    }
}

#[test]
fn long_timeout_does_not_expire_while_others_work() {
    let asker = vec![MustCome(0, 60 * SECOND)];
    let busy = vec![Work; 5_000];
    let polling = vec![JumpUnless(0, 2), Goto(4), Sleep(MS), Goto(0)];
    for rule in [Timeouts::Fair, Timeouts::Late] {
        worst(&[asker.clone(), polling.clone(), busy.clone(), worker(5_000)], 0, rule, 100_000);
        // All of them wait for time, but one for less of it.
        let pause = vec![Sleep(300 * MS), Sleep(300 * MS), Set(0)];
        worst(&[asker.clone(), pause], 0, rule, 100_000);
    }
}

#[test]
fn random_programs_that_poll_end() {
    let mut rng = Rng::new(7);
    for _ in 0..20 {
        let lengths = [MS / 20, MS, 20 * MS, 500 * MS, 3 * SECOND];
        let poller = |rng: &mut Rng| {
            let length = lengths[rng.below(5) as usize];
            let wait = [Sleep(length), TimedWait(0, length), Yield][rng.below(3) as usize];
            let look = [JumpUnless(0, 1), JumpUnlessLocked(0, 1)][rng.below(2) as usize];
            let body = vec![Work; rng.below(4) as usize];
            let mut steps = [&[look, wait][..], &body].concat();
            steps.extend([JumpUnless(0, 0)]);
            steps
        };
        let pollers: Vec<_> = (0..1 + rng.below(4)).map(|_| poller(&mut rng)).collect();
        let mut setter = vec![Sleep(lengths[rng.below(5) as usize]); rng.below(3) as usize];
        setter.extend(worker(rng.below(1_000) as usize));
        worst(&[&pollers[..], &[setter]].concat(), 0, Timeouts::Fair, 3_000_000);
    }
}

/// The eager rule is what it always was: a time-out competes with the other threads whatever its length.
#[test]
fn eager_timeouts_expire_at_any_moment() {
    let asker = vec![MustCome(0, 60 * SECOND)];
    let expired = (0..100).filter(|&seed| {
        let mut run = Run::new(vec![asker.clone(), worker(3)], 0, Timeouts::Eager);
        run.run(Policy::Random, seed, 1_000);
        run.timed_out
    });
    assert!(expired.count() > 50);
}
