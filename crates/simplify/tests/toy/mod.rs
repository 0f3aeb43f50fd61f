//! Programs in memory: threads as lists of instructions, scheduled by the real picker. The rules for enabled
//! threads, events and outcomes are those of the runtime.

#![allow(dead_code, reason = "each test uses a part")]

mod machine;
pub(crate) mod programs;

use machine::Machine;
use std::convert::Infallible;
use unsnarl_model::{Plan, Policy, RunLimits, Trace};
use unsnarl_simplify::Runner;

/// One step of a thread. A register holds the last value read, or whether a try succeeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ins {
    /// Reads a variable into the register.
    Read(u8),
    /// Writes a variable.
    Write(u8, i64),
    /// Adds to a variable atomically; the register has the new value.
    Add(u8, i64),
    Lock(u8),
    Unlock(u8),
    /// Locks unless a timeout expires first; the register is 1 if it expired.
    TimedLock(u8),
    /// The register is 1 if it succeeded.
    TryLock(u8),
    ReadLock(u8),
    WriteLock(u8),
    TryWriteLock(u8),
    RwUnlock(u8),
    /// Waits on a condition, releasing a lock.
    Wait(u8, u8),
    /// The same with a timeout; the register is 1 if it expired.
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
    /// Jumps; no event.
    Goto(u8),
    /// Jumps unless the register has this value; no event.
    Unless(i64, u8),
    /// The program fails here; no event.
    Fail(&'static str),
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Program {
    /// The instructions of each thread; the first is main.
    pub threads: Vec<Vec<Ins>>,
    /// True if all threads exist from the start, without events for their starts and ends.
    pub bare: bool,
    /// True if plain accesses of a thread that is alone are events too; in a real run they are not.
    pub sole_accesses_are_events: bool,
    /// The initial count of semaphores.
    pub count: u64,
    /// The number of threads a barrier waits for.
    pub barrier: u64,
}

impl Program {
    /// Builds a program whose threads exist from the start, as in the papers.
    pub(crate) fn bare(threads: Vec<Vec<Ins>>) -> Self {
        Self { threads, bare: true, sole_accesses_are_events: true, ..Self::default() }
    }

    /// Runs the program.
    pub(crate) fn run(&self, plan: &Plan) -> Trace {
        Machine::new(self, plan).run()
    }
}

/// More events than any of the programs needs.
pub(crate) const MAX_EVENTS: u64 = 400;

/// Runs the program with a random schedule.
pub(crate) fn record(program: &Program, seed: u64) -> Trace {
    let limits = RunLimits { events: MAX_EVENTS, ..RunLimits::default() };
    program.run(&Plan { tail: Policy::Random, seed, limits, ..Plan::default() })
}

/// Returns the first failing random run.
pub(crate) fn failing(program: &Program, seeds: impl IntoIterator<Item = u64>) -> Option<Trace> {
    let runs = seeds.into_iter().map(|seed| record(program, seed));
    runs.into_iter().find(|trace| trace.outcome.is_failure() && trace.events.len() < MAX_EVENTS as usize)
}

/// Runs a program in memory.
pub(crate) struct InMemory<'p> {
    program: &'p Program,
    /// The number of runs.
    pub(crate) runs: u64,
}

impl<'p> InMemory<'p> {
    pub(crate) fn new(program: &'p Program) -> Self {
        Self { program, runs: 0 }
    }
}

impl Runner for InMemory<'_> {
    type Error = Infallible;

    fn run(&mut self, plan: &Plan) -> Result<Trace, Infallible> {
        self.runs += 1;
        Ok(self.program.run(plan))
    }
}
