//! Programs in memory: threads as lists of instructions, scheduled by the real picker, with the runtime's rules
//! for who can go on, what is an event and how a run ends.

#![allow(dead_code, reason = "each test uses a part")]

mod machine;
pub(crate) mod programs;

use machine::Machine;
use std::convert::Infallible;
use unsnarl_model::{Plan, Policy, RunLimits, Trace};
use unsnarl_simplify::{Choice, Runner};

/// One step of a thread. A register keeps what was read last, or whether a try succeeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ins {
    /// Reads a variable into the register.
    Read(u8),
    /// Writes a variable.
    Write(u8, i64),
    /// Adds to a variable at once; the register has the new value.
    Add(u8, i64),
    Lock(u8),
    Unlock(u8),
    /// The register has 1 if it succeeded.
    TryLock(u8),
    ReadLock(u8),
    WriteLock(u8),
    TryWriteLock(u8),
    RwUnlock(u8),
    /// Waits on a condition, giving up a lock.
    Wait(u8, u8),
    /// The same until time has passed; the register has 1 if that was so.
    TimedWait(u8, u8),
    Signal(u8),
    Broadcast(u8),
    SemWait(u8),
    SemTryWait(u8),
    SemPost(u8),
    Barrier(u8),
    /// Creates the thread that runs this list.
    Create(u8),
    /// Waits until the thread of this list has ended.
    Join(u8),
    Yield,
    Sleep,
    /// Goes elsewhere; no event.
    Goto(u8),
    /// Goes elsewhere unless the register has this value; no event.
    Unless(i64, u8),
    /// The program fails here; no event.
    Fail(&'static str),
}

/// A program.
#[derive(Clone, Debug, Default)]
pub(crate) struct Program {
    /// The instructions of each thread; the first is main.
    pub threads: Vec<Vec<Ins>>,
    /// Whether all threads are there from the start, without events for their starts and ends.
    pub bare: bool,
    /// Whether plain accesses are events also of a thread that is alone; in a real run they are not.
    pub simulated_count: bool,
    /// What semaphores have at the start.
    pub count: u64,
    /// How many a barrier waits for.
    pub barrier: u64,
}

impl Program {
    /// Threads that are there from the start, as the papers have them.
    pub(crate) fn bare(threads: Vec<Vec<Ins>>) -> Self {
        Self { threads, bare: true, simulated_count: true, ..Self::default() }
    }

    /// One run.
    pub(crate) fn run(&self, plan: &Plan) -> Trace {
        self.run_and_simulate(plan).0
    }

    /// One run, and who could go on before each event.
    pub(crate) fn run_and_simulate(&self, plan: &Plan) -> (Trace, Vec<Choice>) {
        Machine::new(self, plan).run()
    }
}

/// More events than any of the programs needs.
pub(crate) const MAX_EVENTS: u64 = 400;

/// A run by chance.
pub(crate) fn record(program: &Program, seed: u64) -> Trace {
    let limits = RunLimits { events: MAX_EVENTS, ..RunLimits::default() };
    program.run(&Plan { tail: Policy::Random, seed, limits, ..Plan::default() })
}

/// The first run by chance that fails.
pub(crate) fn failing(program: &Program, seeds: impl IntoIterator<Item = u64>) -> Option<Trace> {
    let runs = seeds.into_iter().map(|seed| record(program, seed));
    runs.into_iter().find(|trace| trace.outcome.is_failure() && trace.events.len() < MAX_EVENTS as usize)
}

/// Runs a program in memory.
pub(crate) struct InMemory<'p> {
    program: &'p Program,
    /// How often it was run.
    pub(crate) runs: u64,
    choices: Vec<Choice>,
}

impl<'p> InMemory<'p> {
    pub(crate) fn new(program: &'p Program) -> Self {
        Self { program, runs: 0, choices: Vec::new() }
    }
}

impl Runner for InMemory<'_> {
    type Error = Infallible;

    fn run(&mut self, plan: &Plan) -> Result<Trace, Infallible> {
        self.runs += 1;
        let (trace, choices) = self.program.run_and_simulate(plan);
        self.choices = choices;
        Ok(trace)
    }

    fn choices(&mut self) -> Vec<Vec<Choice>> {
        vec![std::mem::take(&mut self.choices)]
    }
}
