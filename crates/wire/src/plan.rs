//! A plan as the runtime reads it.

use unsnarl_model::{Action, ModuleIx, Op, Policy, Segment, Site, ThreadIx};

/// The single figures of a plan.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct PlanWords {
    /// For the policy's choices.
    pub seed: u64,
    /// For the program's random numbers.
    pub entropy: u64,
    /// Virtual time at the start.
    pub epoch: u64,
    /// Events after which the log is full.
    pub max_events: u64,
    /// Points without change after which it is a livelock.
    pub max_spins: u64,
    /// The number of the policy, see [`PlanWords::policy`].
    pub tail: u8,
    /// The number of the fidelity.
    pub fidelity: u8,
    /// The number of the point set.
    pub points: u8,
    /// 1 if waits may end for no reason.
    pub spurious: u8,
    /// 1 to look for conflicts.
    pub conflicts: u8,
    /// 1 to tell each point's choices.
    pub choices: u8,
    /// 1 if the policy begins at the first checkpoint.
    pub from_checkpoint: u8,
    /// Where the plan ends, the program becomes the snapshot of this number, see [`crate::SNAPSHOTS`]; 0 for none.
    pub snapshot: u8,
    /// The number of the [`Tracing`](crate::Tracing).
    pub tracing: u8,
    /// 1 to let threads be kernel threads that pass a token; 0 for fibers.
    pub kernel_threads: u8,
    /// 1 if a debugger looks on: the runtime tells it where the run is, see `unsnarl_debug` in the runtime.
    pub debugged: u8,
    /// 1 if what comes from outside is the plan's to say.
    pub replays_inputs: u8,
    /// 1 if there are processors to spare: who waits for the next plan looks for it a while before it sleeps.
    pub busy_waits: u8,
    /// Nothing; keeps what follows aligned.
    pub padding: [u8; 3],
    /// One access in so many is a point.
    pub one_in: u32,
    /// The policy's first figure, where it has one.
    pub depth: u32,
    /// The policy's second figure, where it has one.
    pub steps: u64,
    /// Entries in the plan's tables.
    pub threads: u64,
    /// See `threads`.
    pub modules: u64,
    /// See `threads`.
    pub segments: u64,
    /// See `threads`.
    pub actions: u64,
    /// See `threads`.
    pub spans: u64,
    /// How many points were done before the plan begins: by the snapshot that the run comes from.
    pub resumed: u64,
    /// Words of instruction trace after which there is no room.
    pub step_words: u64,
    /// How many modules are to be traced.
    pub traced: u64,
    /// For how many threads it is said until when they are traced; 0 if all are, for as long as they run.
    pub until: u64,
    /// At how many functions the trace of a thread pauses until it unwinds.
    pub pauses: u64,
    /// How many bytes of what is to come from outside there are.
    pub inputs: u64,
    /// Of how many events the calls are wanted.
    pub stack_requests: u64,
    /// An operation whose calls are wanted, twice.
    pub side_requests: [SideRequest; 2],
    /// Where, in the addresses of the program's file, a variable is whose loads are none of the program's business; 0 for none.
    pub ignored_variable: u64,
    /// Where, in the same addresses, compiled code is whose loops would pause: first and last, both 0 for none.
    pub spin_functions: [[u64; 2]; 4],
}

/// An operation whose calls are wanted: the last one of this kind before the conflict is found.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SideRequest {
    /// Its return address; 0 if none is wanted.
    pub pc: u64,
    /// Of which thread.
    pub thread: u64,
}

impl PlanWords {
    /// Writes the policy down.
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

    /// The policy.
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
    /// The how-manieth child, from 1; 0 for main.
    pub nth: u32,
}

/// A segment of a plan.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct RawSegment {
    /// The thread's entry.
    pub thread: u32,
    /// For how many points.
    pub points: u32,
}

/// A span of a plan.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct RawSpan {
    /// The module's entry.
    pub module: u64,
    /// Where it begins.
    pub start: u64,
    /// Where it ends.
    pub end: u64,
}

/// An action of a plan: operation (8 bits), module (16), offset (40).
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default)]
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

impl From<Action> for RawAction {
    fn from(action: Action) -> Self {
        let Site { module, offset } = action.site;
        Self((action.op as u64) << 56 | u64::from(module.0) << 40 | (offset & ((1 << 40) - 1)))
    }
}

impl RawAction {
    /// The action; none if the memory was damaged.
    #[must_use]
    pub fn unpack(self) -> Option<Action> {
        let site = Site { module: ModuleIx((self.0 >> 40) as u16), offset: self.0 & ((1 << 40) - 1) };
        Some(Action { op: Op::from_number((self.0 >> 56) as u8)?, site })
    }
}

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
    fn actions_round_trip() {
        let action = Action { op: Op::Sleep, site: Site { module: ModuleIx(511), offset: 0x12_3456_789a } };
        assert_eq!(RawAction::from(action).unpack(), Some(action));
        assert_eq!(RawAction(u64::MAX).unpack(), None);
    }
}
