//! How a run shall be scheduled.

use crate::{Inputs, ModuleIx, Op, Segment, Site, ThreadId};
use alloc::{string::String, vec::Vec};

/// Everything that decides a run apart from the program and its inputs. The same plan gives the
/// same trace.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Plan {
    /// What to follow first.
    pub prefix: Prefix,
    /// Who runs where the prefix says nothing.
    pub tail: Policy,
    /// For the policy's choices.
    pub seed: u64,
    /// Which accesses are schedule points.
    pub points: Points,
    /// The code that `points` and `tail` speak of.
    pub places: Places,
    /// Of the accesses that are points by `points`, one in so many is one; drawn by `entropy`.
    pub one_in: u32,
    /// Whether to look for conflicts: races, and operations that compete for the same thing.
    pub conflicts: bool,
    /// Whether to tell at each point which of the first 64 threads could have run.
    pub choices: bool,
    /// Whether the policy begins at the program's first checkpoint; before it, threads run without preemptions.
    pub from_checkpoint: bool,
    /// Whether waits on condition variables may end for no reason.
    pub spurious: bool,
    /// What the program's own random numbers are drawn from.
    pub entropy: u64,
    /// The virtual time at the start, in nanoseconds since 1970.
    pub epoch: u64,
    /// Where the run is cut off.
    pub limits: RunLimits,
    /// What comes from outside. In the plan of a trace: what came.
    pub inputs: Inputs,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            prefix: Prefix::default(),
            tail: Policy::Fair,
            seed: 0,
            points: Points::All,
            places: Places::default(),
            one_in: 1,
            conflicts: false,
            choices: false,
            from_checkpoint: false,
            spurious: false,
            entropy: 0x5eed,
            // 2026-01-01 00:00:00 UTC: a fixed date, so that a seed alone says what a run does.
            epoch: 1_767_225_600_000_000_000,
            limits: RunLimits::default(),
            inputs: None,
        }
    }
}

/// A schedule to follow: segments over the plan's own list of threads.
#[derive(Clone, Debug, PartialEq, Eq, Default, Hash)]
pub struct Prefix {
    /// The threads that `segments` index by their [`crate::ThreadIx`].
    pub threads: Vec<ThreadId>,
    /// The modules that the sites of `actions` are in, by path.
    pub modules: Vec<String>,
    /// Who runs for how many points.
    pub segments: Vec<Segment>,
    /// What is expected at each point; as many as the segments have points, or none at all.
    pub actions: Vec<Action>,
    /// How closely to follow.
    pub fidelity: Fidelity,
}

impl Prefix {
    /// Who runs at each point, and what is expected of it.
    pub fn steps(&self) -> impl Iterator<Item = (&ThreadId, Option<&Action>)> {
        let threads = self.segments.iter().flat_map(|s| core::iter::repeat_n(s.thread, s.points as usize));
        threads.enumerate().map(|(at, thread)| (&self.threads[thread.index()], self.actions.get(at)))
    }

    /// For how many points two schedules are the same; where one of them expects nothing in particular, they are.
    #[must_use]
    pub fn common_points(&self, other: &Self) -> usize {
        let both_expect = !self.actions.is_empty() && !other.actions.is_empty();
        if both_expect && self.modules != other.modules {
            return 0;
        }
        let same = |a: &(&ThreadId, Option<&Action>), b: &(&ThreadId, Option<&Action>)| {
            a.0 == b.0 && (!both_expect || a.1 == b.1)
        };
        self.steps().zip(other.steps()).take_while(|(a, b)| same(a, b)).count()
    }
}

/// What a thread does at a point, told without addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Action {
    /// The operation.
    pub op: Op,
    /// From where.
    pub site: Site,
}

/// How closely a prefix is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Hash)]
#[repr(u8)]
pub enum Fidelity {
    /// To the point: anything else that happens is a divergence and ends the run.
    #[default]
    Exact,
    /// As the Tinertia paper, section 4.2.1: tolerate what a changed order changes.
    Relaxed,
}

/// Who runs next where nothing is prescribed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Hash)]
pub enum Policy {
    /// Nobody: the run ends with the prefix.
    Stop,
    /// Without preemptions, and fair: who gives way or spins lets the others go first.
    #[default]
    Fair,
    /// Anyone, each with the same chance at each point.
    Random,
    /// Whoever has the highest random priority; at `depth - 1` random points of the first `steps`, the
    /// running thread's priority drops.
    Pct {
        /// How many ordering constraints the bug may need.
        depth: u32,
        /// How many points a run is expected to have.
        steps: u64,
    },
    /// Whoever's next operation has the highest random priority; operations that conflict with the one
    /// executed get new ones.
    Pos,
    /// Anyone, but who comes to one of two places, given by their numbers in [`Places::spans`], is held
    /// there until somebody comes to the other on the same object.
    Race {
        /// Who is here goes first.
        first: u16,
        /// Who is here goes second; may be the same place.
        second: u16,
    },
}

impl Policy {
    /// Its name on the command line, with its figures: `pct:3:240`.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::Stop => "stop".into(),
            Self::Fair => "fair".into(),
            Self::Random => "random".into(),
            Self::Pct { depth, steps } => alloc::format!("pct:{depth}:{steps}"),
            Self::Pos => "pos".into(),
            Self::Race { first, second } => alloc::format!("race:{first}:{second}"),
        }
    }
}

/// Which memory accesses are schedule points, beside all synchronisation and atomic operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Hash)]
#[repr(u8)]
pub enum Points {
    /// None.
    Sync,
    /// Every instrumented access made while more than one thread is alive.
    #[default]
    All,
    /// Those of [`Plan::places`].
    Places,
}

/// Places in the code of a program, told without addresses.
#[derive(Clone, Debug, PartialEq, Eq, Default, Hash)]
pub struct Places {
    /// The modules that `spans` are in, by path.
    pub modules: Vec<String>,
    /// The places.
    pub spans: Vec<Span>,
}

/// A stretch of code: a call, a function, a part of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    /// In which of [`Places::modules`].
    pub module: ModuleIx,
    /// Where it begins.
    pub start: u64,
    /// Where it ends.
    pub end: u64,
}

impl Places {
    /// The number of the module with this path, which is added if it is new.
    pub fn module(&mut self, path: &str) -> ModuleIx {
        let known = self.modules.iter().position(|known| known == path);
        ModuleIx(known.unwrap_or_else(|| {
            self.modules.push(path.into());
            self.modules.len() - 1
        }) as u16)
    }

    /// The number of a span, which is added if it is new.
    pub fn add(&mut self, span: Span) -> u16 {
        let known = self.spans.iter().position(|&known| known == span);
        known.unwrap_or_else(|| {
            self.spans.push(span);
            self.spans.len() - 1
        }) as u16
    }
}

/// Where a run is cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RunLimits {
    /// Events in all.
    pub events: u64,
    /// Events in a row, of whatever threads, that changed nothing: then it is a livelock.
    pub spins: u32,
    /// Real time, in milliseconds.
    pub millis: u64,
}

impl Default for RunLimits {
    fn default() -> Self {
        Self { events: 1 << 24, spins: 1_000_000, millis: 60_000 }
    }
}
