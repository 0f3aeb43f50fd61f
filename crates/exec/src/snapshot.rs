//! Snapshots: a process waits after a prefix of a plan, and runs of plans with the same prefix resume from it.

use crate::process::SnapshotProcess;
use unsnarl_model::{Fidelity, Plan, Policy, Prefix};

/// The result of an attempt to take a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SnapshotResult {
    /// The snapshot exists.
    Taken,
    /// The run of this plan ended before that point. Another plan may reach it.
    NotReached,
    /// The program or the settings do not allow snapshots, for this reason.
    Refused(String),
}

/// A run that waits after a prefix of a plan.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) server_process: SnapshotProcess,
    /// The plan that it followed to the end.
    plan: Plan,
    /// There was only one thread up to this point, so there was no choice to record.
    single_threaded: bool,
    /// The program has used a random number.
    uses_random_numbers: bool,
    /// Bytes of shared memory that it has mapped.
    pub(crate) room: u64,
    /// The standard streams at this point.
    pub(crate) streams: StreamState,
}

/// State of the program's standard streams.
#[derive(Debug, Default)]
pub(crate) struct StreamState {
    pub(crate) read: u64,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
}

impl Snapshot {
    pub(crate) fn new(
        server_process: SnapshotProcess,
        (plan, single_threaded, uses_random_numbers): (Plan, bool, bool),
        room: u64,
        streams: StreamState,
    ) -> Self {
        Self { server_process, plan, single_threaded, uses_random_numbers, room, streams }
    }

    /// Returns the number of points after which it waits.
    pub(crate) fn points(&self) -> usize {
        points(&self.plan.prefix)
    }

    /// Returns whether a run of `plan` is in the same state after as many points.
    pub(crate) fn is_prefix_of(&self, plan: &Plan) -> bool {
        let own = self.points();
        // The process read the plan's module table when it started.
        let (modules, prefix) = (&self.plan.prefix.modules, &plan.prefix);
        own <= points(prefix)
            && (prefix.actions.is_empty() || *modules == prefix.modules)
            && differ_only_in_choices(&self.plan, plan)
            && (!self.uses_random_numbers || self.plan.entropy == plan.entropy)
            && (self.single_threaded || self.plan.choices == plan.choices)
            && self.plan.prefix.common_points(&plan.prefix) == own
    }
}

/// Returns whether two plans have no other difference than their schedules and the program's random numbers.
fn differ_only_in_choices(a: &Plan, b: &Plan) -> bool {
    let Plan {
        prefix: _,
        tail: _,
        seed: _,
        points,
        places,
        one_in,
        conflicts,
        choices: _,
        from_checkpoint,
        spurious,
        timeouts,
        continuations,
        entropy: _,
        epoch,
        limits,
        inputs,
    } = a;
    *points == b.points
        && *places == b.places
        && *one_in == b.one_in
        && *conflicts == b.conflicts
        && *from_checkpoint == b.from_checkpoint
        && *spurious == b.spurious
        && *timeouts == b.timeouts
        && *continuations == b.continuations
        && *epoch == b.epoch
        && *limits == b.limits
        && *inputs == b.inputs
}

/// Returns the first `count` points of a plan; the run stops after them.
pub(crate) fn first_points(plan: &Plan, count: usize) -> Plan {
    let mut left = count;
    let mut segments = plan.prefix.segments.clone();
    segments.retain_mut(|segment| {
        segment.points = segment.points.min(u32::try_from(left).unwrap_or(u32::MAX));
        left -= segment.points as usize;
        segment.points > 0
    });
    let actions = plan.prefix.actions.iter().copied().take(count).collect();
    let prefix = Prefix { segments, actions, fidelity: Fidelity::Exact, ..plan.prefix.clone() };
    Plan { prefix, tail: Policy::Stop, ..plan.clone() }
}

/// Returns the plan without its first `count` points.
pub(crate) fn remaining_points(plan: &Plan, count: usize) -> Plan {
    let mut to_skip = count;
    let mut segments = plan.prefix.segments.clone();
    segments.retain_mut(|segment| {
        let skipped = to_skip.min(segment.points as usize);
        to_skip -= skipped;
        segment.points -= skipped as u32;
        segment.points > 0
    });
    let actions = plan.prefix.actions.iter().copied().skip(count).collect();
    Plan { prefix: Prefix { segments, actions, ..plan.prefix.clone() }, ..plan.clone() }
}

fn points(prefix: &Prefix) -> usize {
    prefix.segments.iter().map(|segment| segment.points as usize).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use unsnarl_model::{Action, Op, Segment, Site, ThreadIx};

    fn plan(schedule: &[(u16, u32)]) -> Plan {
        let segments = schedule.iter().map(|&(thread, points)| Segment { thread: ThreadIx(thread), points });
        let count: u32 = schedule.iter().map(|(_, points)| points).sum();
        let site = |at| Site { offset: u64::from(at), ..Site::default() };
        let action = |at| Action { op: Op::Write, site: site(at) }.into();
        let prefix = Prefix {
            threads: ["0", "0.1"].iter().map(|id| id.parse().unwrap()).collect(),
            segments: segments.collect(),
            actions: (0..count).map(action).collect(),
            ..Prefix::default()
        };
        Plan { prefix, ..Plan::default() }
    }

    #[test]
    fn plan_splits_into_first_points_and_rest() {
        let whole = plan(&[(0, 2), (1, 3), (0, 1)]);
        for count in 0..=6 {
            let (first, rest) = (first_points(&whole, count), remaining_points(&whole, count));
            assert_eq!(points(&first.prefix), count);
            assert_eq!(
                first.prefix.steps().chain(rest.prefix.steps()).collect::<Vec<_>>(),
                whole.prefix.steps().collect::<Vec<_>>()
            );
            assert_eq!(first.prefix.common_points(&whole.prefix), count);
        }
    }

    #[test]
    fn common_points_are_the_shared_prefix() {
        let a = plan(&[(0, 2), (1, 3)]);
        assert_eq!(a.prefix.common_points(&plan(&[(0, 2), (1, 1), (0, 4)]).prefix), 3);
        assert_eq!(a.prefix.common_points(&plan(&[(1, 1)]).prefix), 0);
    }
}
