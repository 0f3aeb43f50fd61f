//! Plans: how a run is to be scheduled.

use crate::{Inputs, ModuleIx, Op, Segment, Site, ThreadId};
use alloc::{string::String, vec::Vec};

/// Everything that determines a run apart from the program and its inputs. The same plan yields the same
/// trace.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Plan {
    /// The schedule to follow first.
    pub prefix: Prefix,
    /// The policy that chooses threads after the prefix.
    pub tail: Policy,
    /// The seed of the policy's choices.
    pub seed: u64,
    /// Which memory accesses are schedule points.
    pub points: Points,
    /// The code locations that `points` and `tail` refer to.
    pub places: Places,
    /// Only one in `one_in` of the accesses selected by `points` becomes a schedule point, drawn by
    /// `entropy`.
    pub one_in: u32,
    /// Look for conflicts: races, and operations that compete for the same object.
    pub conflicts: bool,
    /// Record at each point which of the first 64 threads were enabled.
    pub choices: bool,
    /// Whether the policy starts at the program's first checkpoint; before it, threads run without
    /// preemptions.
    pub from_checkpoint: bool,
    /// True if waits on condition variables may wake spuriously.
    pub spurious: bool,
    /// The rule by which time-outs expire while other threads can go on.
    pub timeouts: Timeouts,
    /// True if a schedule point follows each thread creation in programs whose accesses are not seen.
    pub continuations: bool,
    /// The seed of the program's own random numbers.
    pub entropy: u64,
    /// The virtual time at the start, in nanoseconds since 1970.
    pub epoch: u64,
    /// Limits at which the run is stopped.
    pub limits: RunLimits,
    /// Inputs to feed to the program. In the plan of a trace: the inputs it received.
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
            timeouts: Timeouts::default(),
            continuations: true,
            entropy: 0x5eed,
            // 2026-01-01 00:00:00 UTC, a fixed date, so that the seed alone determines a run.
            epoch: 1_767_225_600_000_000_000,
            limits: RunLimits::default(),
            inputs: None,
        }
    }
}

/// A schedule to follow: segments over the plan's own list of threads.
#[derive(Clone, Debug, PartialEq, Eq, Default, Hash)]
pub struct Prefix {
    /// The threads that `segments` index by [`crate::ThreadIx`].
    pub threads: Vec<ThreadId>,
    /// Paths of the modules that the sites of `actions` are in.
    pub modules: Vec<String>,
    /// The threads to run, each for a number of points.
    pub segments: Vec<Segment>,
    /// The action planned at each point: one for each point of the segments, or none at all.
    pub actions: Vec<PlannedAction>,
    /// The fidelity with which to follow the schedule.
    pub fidelity: Fidelity,
}

impl Prefix {
    /// Iterates over the points: the thread to run and the action planned for it.
    pub fn steps(&self) -> impl Iterator<Item = (&ThreadId, Option<&PlannedAction>)> {
        let threads = self.segments.iter().flat_map(|s| core::iter::repeat_n(s.thread, s.points as usize));
        threads.enumerate().map(|(at, thread)| (&self.threads[thread.index()], self.actions.get(at)))
    }

    /// Returns the first points of the schedule.
    #[must_use]
    pub fn first_points(mut self, points: usize) -> Self {
        let mut left = points;
        for segment in &mut self.segments {
            let kept = left.min(segment.points as usize);
            segment.points = kept as u32;
            left -= kept;
        }
        self.segments.retain(|segment| segment.points > 0);
        self.actions.truncate(points);
        self
    }

    /// Returns the length of the common prefix of two schedules, in points. If one of them has no planned
    /// actions, only threads are compared.
    #[must_use]
    pub fn common_points(&self, other: &Self) -> usize {
        let both_have_actions = !self.actions.is_empty() && !other.actions.is_empty();
        if both_have_actions && self.modules != other.modules {
            return 0;
        }
        let same = |a: &(&ThreadId, Option<&PlannedAction>), b: &(&ThreadId, Option<&PlannedAction>)| {
            a.0 == b.0 && (!both_have_actions || a.1 == b.1)
        };
        self.steps().zip(other.steps()).take_while(|(a, b)| same(a, b)).count()
    }
}

/// An operation and its site, without addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Action {
    /// The operation.
    pub op: Op,
    /// The site of the operation.
    pub site: Site,
}

/// The planned action of a thread at a point of a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PlannedAction {
    /// It executes this action.
    Execute(Action),
    /// It runs until it blocks, whatever it executes. Only a relaxed prefix can be followed past such a point.
    RunUntilBlocked,
}

impl PlannedAction {
    /// Returns the action to execute, if a particular one is planned.
    #[must_use]
    #[inline]
    pub const fn action(&self) -> Option<&Action> {
        match self {
            Self::Execute(action) => Some(action),
            Self::RunUntilBlocked => None,
        }
    }
}

impl From<Action> for PlannedAction {
    fn from(action: Action) -> Self {
        Self::Execute(action)
    }
}

/// The fidelity with which a prefix is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Hash)]
#[repr(u8)]
pub enum Fidelity {
    /// Exactly: any deviation is a divergence and ends the run.
    #[default]
    Exact,
    /// As in the Tinertia paper, section 4.2.1: tolerates differences caused by a changed order.
    Relaxed,
}

/// Chooses the next thread after the prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Hash)]
pub enum Policy {
    /// No thread: the run ends with the prefix.
    Stop,
    /// Without preemptions, and fair: a thread that yields or spins lets the others go first.
    #[default]
    Fair,
    /// Each enabled thread with the same probability at each point.
    Random,
    /// The thread with the highest random priority; at `depth - 1` random points among the first `steps`, the
    /// running thread's priority drops.
    Pct {
        /// The number of ordering constraints that the bug may need.
        depth: u32,
        /// The expected number of points of a run.
        steps: u64,
    },
    /// The thread whose next operation has the highest random priority; operations that conflict with the
    /// executed one get new priorities.
    Pos,
    /// Random, but a thread that reaches one of two places (indices into [`Places::spans`]) is held there
    /// until another thread reaches the other place on the same object.
    Race {
        /// The thread at this place goes first.
        first: u16,
        /// The thread at this place goes second; may be the same place.
        second: u16,
    },
}

impl Policy {
    /// Returns the name on the command line, with its parameters: `pct:3:240`.
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

/// Which memory accesses are schedule points, in addition to all synchronisation and atomic operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Hash)]
#[repr(u8)]
pub enum Points {
    /// None.
    Sync,
    /// Every instrumented access while more than one thread is alive.
    #[default]
    All,
    /// Accesses at [`Plan::places`].
    Places,
}

/// A rule for the time-outs of waits, sleeps and timers while other threads can go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Hash)]
#[repr(u8)]
pub enum Timeouts {
    /// At any moment, whatever its length.
    Eager,
    /// If it is short, a bounded number of times; if it is long, only after the others have done much.
    #[default]
    Fair,
    /// Not at all.
    Late,
}

/// Places in the code of a program, given without addresses.
#[derive(Clone, Debug, PartialEq, Eq, Default, Hash)]
pub struct Places {
    /// Paths of the modules that `spans` are in.
    pub modules: Vec<String>,
    pub spans: Vec<Span>,
}

/// A range of code: a call, a function, a part of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    /// The index into [`Places::modules`].
    pub module: ModuleIx,
    /// The first offset.
    pub start: u64,
    /// The end offset.
    pub end: u64,
}

impl Places {
    /// Returns the index of the module with this path, adding it if it is new.
    pub fn module(&mut self, path: &str) -> ModuleIx {
        let known = self.modules.iter().position(|known| known == path);
        ModuleIx(known.unwrap_or_else(|| {
            self.modules.push(path.into());
            self.modules.len() - 1
        }) as u16)
    }

    /// Returns the index of a span, adding it if it is new.
    pub fn add(&mut self, span: Span) -> u16 {
        let known = self.spans.iter().position(|&known| known == span);
        known.unwrap_or_else(|| {
            self.spans.push(span);
            self.spans.len() - 1
        }) as u16
    }
}

/// Limits at which a run is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RunLimits {
    /// The number of events.
    pub events: u64,
    /// Consecutive events, of any threads, that changed nothing; beyond that the run counts as a livelock.
    pub spins: u32,
    /// Real time, in milliseconds.
    pub millis: u64,
}

impl Default for RunLimits {
    fn default() -> Self {
        Self { events: 1 << 24, spins: 1_000_000, millis: 60_000 }
    }
}
