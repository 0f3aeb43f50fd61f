//! A plan as the runtime reads it.

use unsnarl_model::{Action, ModuleIx, Op, PlannedAction, Policy, Segment, Site, ThreadIx, Timeouts};

/// The maximum number of [`PlanWords::ordering_functions`].
pub const MAX_ORDERING_FUNCTIONS: usize = 16;

/// The scalar values of a plan.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct PlanWords {
    /// The seed of the policy's choices.
    pub seed: u64,
    /// The seed of the program's random numbers.
    pub entropy: u64,
    /// The virtual time at the start.
    pub epoch: u64,
    /// The maximum number of events.
    pub max_events: u64,
    /// The number of consecutive fruitless events that counts as a livelock.
    pub max_spins: u64,
    /// The number of the policy, see [`PlanWords::policy`].
    pub tail: u8,
    /// The number of the fidelity.
    pub fidelity: u8,
    /// The number of the point set.
    pub points: u8,
    /// 1 if waits may end by spurious wake-ups.
    pub spurious: u8,
    /// 1 to search for conflicts.
    pub conflicts: u8,
    /// 1 to record the choices at each schedule point.
    pub choices: u8,
    /// 1 if the policy begins at the first checkpoint.
    pub from_checkpoint: u8,
    /// The snapshot that the program becomes at the end of the plan, see [`crate::SNAPSHOTS`]; 0 for none.
    pub snapshot: u8,
    /// The number of the [`Tracing`](crate::Tracing).
    pub tracing: u8,
    /// 1 for kernel threads that pass a token; 0 for fibers.
    pub kernel_threads: u8,
    /// 1 if a debugger is attached: the runtime reports the state of the run, see `unsnarl_debug` in the
    /// runtime.
    pub debugged: u8,
    /// 1 if the plan supplies the inputs.
    pub replays_inputs: u8,
    /// 1 if there are idle processors: a process that waits for the next plan polls for a while before it
    /// sleeps.
    pub busy_waits: u8,
    /// The number of the [`Timeouts`], see [`PlanWords::time_rule`].
    pub timeouts: u8,
    /// 1 if a thread creation is followed by a schedule point in programs whose accesses are not seen.
    pub continuations: u8,
    /// The number of the [`FileRule`].
    pub files: u8,
    /// The number of the [`NetworkRule`].
    pub network: u8,
    /// Padding for alignment.
    pub padding: [u8; 7],
    /// One access in this many is a schedule point.
    pub one_in: u32,
    /// The policy's first parameter, if it has one.
    pub depth: u32,
    /// The policy's second parameter, if it has one.
    pub steps: u64,
    /// The number of entries in the plan's table.
    pub threads: u64,
    /// See `threads`.
    pub modules: u64,
    /// See `threads`.
    pub segments: u64,
    /// See `threads`.
    pub actions: u64,
    /// See `threads`.
    pub spans: u64,
    /// The number of schedule points before the plan begins, executed by the snapshot that the run continues
    /// from.
    pub resumed: u64,
    /// The maximum number of words in the instruction trace.
    pub step_words: u64,
    /// The number of modules to be traced.
    pub traced: u64,
    /// The number of threads with a limit on their tracing; 0 if all are traced throughout.
    pub until: u64,
    /// The number of functions at which a thread's trace pauses until it unwinds.
    pub pauses: u64,
    /// The number of bytes of inputs to replay.
    pub inputs: u64,
    /// The number of plain accesses that the run keeps beside its events; 0 to log none.
    pub accesses: u64,
    /// The number of events whose call stacks are requested.
    pub stack_requests: u64,
    /// The two operations of a conflict whose call stacks are requested.
    pub side_requests: [SideRequest; 2],
    /// The address, in the program's file, of a variable whose loads are ignored; 0 for none.
    pub ignored_variable: u64,
    /// The address ranges, in the program's file, of precompiled code whose loops would pause: first and
    /// last, both 0 for none.
    pub spin_functions: [[u64; 2]; 4],
    /// The address ranges, in the program's file, of precompiled functions that order threads without an event: first
    /// and last, both 0 for none.
    pub ordering_functions: [[u64; 2]; MAX_ORDERING_FUNCTIONS],
}

/// The rule for a program that changes files.
#[repr(u8)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FileRule {
    /// The changes stay.
    #[default]
    Keep,
    /// The runtime records what was there before, so that the controller can undo the changes.
    Undo,
    /// The run ends before the first change.
    Stop,
    /// Like `Undo` in the directories that the header lists, and like `Stop` elsewhere.
    UndoPrivate,
}

impl FileRule {
    /// Returns the rule with this number.
    #[must_use]
    pub const fn from_number(number: u8) -> Self {
        match number {
            1 => Self::Undo,
            2 => Self::Stop,
            3 => Self::UndoPrivate,
            _ => Self::Keep,
        }
    }
}

/// Which network the program has.
#[repr(u8)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NetworkRule {
    /// The machine's.
    #[default]
    Machine,
    /// The machine's, and the run ends before the program takes a port that it chose.
    Stop,
    /// One of its own, and the run ends before the program talks to anybody else.
    Private,
}

impl NetworkRule {
    /// Returns the rule with this number.
    #[must_use]
    pub const fn from_number(number: u8) -> Self {
        match number {
            1 => Self::Stop,
            2 => Self::Private,
            _ => Self::Machine,
        }
    }
}

/// An operation whose call stack is requested: the last one of this kind before the conflict is found.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SideRequest {
    /// Its return address; 0 if none is requested.
    pub pc: u64,
    /// Its thread.
    pub thread: u64,
}

impl PlanWords {
    /// Stores the policy.
    #[must_use]
    pub const fn with_policy(mut self, policy: Policy) -> Self {
        self.tail = match policy {
            Policy::Stop => 0,
            Policy::Fair => 1,
            Policy::Random => 2,
            Policy::Pct { depth, steps } => {
                (self.depth, self.steps) = (depth, steps);
                3
            }
            Policy::Pos => 4,
            Policy::Race { first, second } => {
                (self.depth, self.steps) = (first as u32, second as u64);
                5
            }
        };
        self
    }

    /// Returns the rule for time-outs.
    #[must_use]
    pub const fn time_rule(&self) -> Timeouts {
        match self.timeouts {
            0 => Timeouts::Eager,
            2 => Timeouts::Late,
            _ => Timeouts::Fair,
        }
    }

    /// Returns the policy.
    #[must_use]
    pub const fn policy(&self) -> Policy {
        match self.tail {
            0 => Policy::Stop,
            2 => Policy::Random,
            3 => Policy::Pct { depth: self.depth, steps: self.steps },
            4 => Policy::Pos,
            5 => Policy::Race { first: self.depth as u16, second: self.steps as u16 },
            _ => Policy::Fair,
        }
    }
}

/// A thread of a plan: entry 0 is main, parents precede their children.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlanThread {
    /// Its creator's entry.
    pub parent: u32,
    /// Its ordinal among its creator's children, from 1; 0 for main.
    pub nth: u32,
}

/// A segment of a plan.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct RawSegment {
    /// The thread's entry.
    pub thread: u32,
    /// The number of schedule points.
    pub points: u32,
}

/// A span of a plan.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct RawSpan {
    /// The module's entry.
    pub module: u64,
    /// The start offset.
    pub start: u64,
    /// The end offset.
    pub end: u64,
}

/// A planned action: operation (8 bits), module (16), offset (40).
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RawAction(pub u64);

impl From<Segment> for RawSegment {
    fn from(segment: Segment) -> Self {
        Self { thread: segment.thread.0.into(), points: segment.points }
    }
}

impl From<RawSegment> for Segment {
    fn from(raw: RawSegment) -> Self {
        Self { thread: ThreadIx(raw.thread as u16), points: raw.points }
    }
}

impl From<PlannedAction> for RawAction {
    fn from(planned: PlannedAction) -> Self {
        let PlannedAction::Execute(Action { op, site }) = planned else { return Self::RUN_UNTIL_BLOCKED };
        Self((op as u64) << 56 | u64::from(site.module.0) << 40 | (site.offset & MAX_OFFSET))
    }
}

impl RawAction {
    /// Stands for [`PlannedAction::RunUntilBlocked`]: no instruction has this offset.
    const RUN_UNTIL_BLOCKED: Self = Self((Op::Exit as u64) << 56 | MAX_OFFSET);

    /// Returns the planned action; `None` if the memory was damaged.
    #[must_use]
    pub fn unpack(self) -> Option<PlannedAction> {
        if self == Self::RUN_UNTIL_BLOCKED {
            return Some(PlannedAction::RunUntilBlocked);
        }
        let site = Site { module: ModuleIx((self.0 >> 40) as u16), offset: self.0 & MAX_OFFSET };
        Some(Action { op: Op::from_number((self.0 >> 56) as u8)?, site }.into())
    }
}

const MAX_OFFSET: u64 = (1 << 40) - 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_round_trip() {
        let pct = Policy::Pct { depth: 3, steps: 240 };
        let race = Policy::Race { first: 7, second: 65535 };
        for policy in [Policy::Stop, Policy::Fair, Policy::Random, pct, Policy::Pos, race] {
            assert_eq!(PlanWords::default().with_policy(policy).policy(), policy);
        }
    }

    #[test]
    fn time_rules_round_trip() {
        for rule in [Timeouts::Eager, Timeouts::Fair, Timeouts::Late] {
            let words = PlanWords { timeouts: rule as u8, ..PlanWords::default() };
            assert_eq!(words.time_rule(), rule);
        }
    }

    #[test]
    fn actions_round_trip() {
        let action = Action { op: Op::Sleep, site: Site { module: ModuleIx(511), offset: 0x12_3456_789a } };
        for planned in [PlannedAction::Execute(action), PlannedAction::RunUntilBlocked] {
            assert_eq!(RawAction::from(planned).unpack(), Some(planned));
        }
        assert_eq!(RawAction(u64::MAX).unpack(), None);
    }
}
