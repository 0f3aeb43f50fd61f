//! Decides when to take snapshots in the middle of a run, from which other runs resume.
//!
//! The results of runs do not depend on snapshots, only the time does. So the decision may depend on measured times.

use crate::pool::Pool;
use anyhow::Result;
use std::time::Duration;
use unsnarl_exec::SnapshotResult;
use unsnarl_model::{Op, Plan, PlannedAction, Prefix};

/// Shorter runs are made from the start.
const WORTH: Duration = Duration::from_millis(2);

/// Failed attempts after which no more snapshots are taken.
const TRIES: u32 = 3;

pub(crate) struct Snapshots {
    enabled: bool,
    /// Duration of the latest runs. Its initial value makes the first snapshot worthwhile; if runs are short, little is
    /// lost.
    run_time: Duration,
    /// Number of points after which the next plans differ.
    differ_after: usize,
    /// Runs that resumed from a snapshot.
    pub(crate) resumed: u64,
    /// The reason why the program does not allow snapshots.
    pub(crate) refused: Option<String>,
    failed: u32,
}

impl Snapshots {
    pub(super) const fn new(enabled: bool) -> Self {
        Self { enabled, run_time: WORTH, differ_after: 0, resumed: 0, refused: None, failed: 0 }
    }

    /// Announces the next plans.
    pub(super) fn announce_plans(&mut self, plans: &[Plan]) {
        self.differ_after = match plans {
            [] | [_] => 0,
            [first, others @ ..] if self.is_worth_it() => {
                let common = others.iter().map(|plan| first.prefix.common_points(&plan.prefix));
                common.min().unwrap_or(0).min(expected(&first.prefix))
            }
            _ => 0,
        };
    }

    fn is_worth_it(&self) -> bool {
        self.enabled && self.run_time >= WORTH && self.refused.is_none() && self.failed < TRIES
    }

    /// Takes a snapshot at the first thread creation, which all plans share, and another one where these plans begin to
    /// differ, if that is later.
    pub(super) fn make(&mut self, pool: &mut Pool, plans: &[Plan]) -> Result<()> {
        let Some(plan) = plans.first().filter(|_| self.is_worth_it()) else { return Ok(()) };
        let start = forced(&plan.prefix);
        let places = [start, self.differ_after].into_iter().filter(|&points| points >= start && points > 0);
        for points in places {
            for answer in pool.each(|executor| executor.take_snapshot(plan, points)) {
                match answer? {
                    SnapshotResult::Taken => {}
                    SnapshotResult::Refused(reason) if points == start => {
                        self.refused = Some(reason);
                        return Ok(());
                    }
                    SnapshotResult::NotReached | SnapshotResult::Refused(_) => self.failed += 1,
                }
            }
        }
        Ok(())
    }

    /// Records the time of `rounds` consecutive runs.
    pub(super) fn note(&mut self, elapsed: Duration, rounds: usize) {
        self.run_time = elapsed / u32::try_from(rounds.max(1)).unwrap_or(u32::MAX);
    }
}

/// Returns the number of points up to the first thread creation, which are the same in all schedules.
fn forced(prefix: &Prefix) -> usize {
    let creates = |planned: &PlannedAction| planned.action().is_some_and(|action| action.op == Op::Create);
    prefix.actions.iter().position(creates).map_or(0, |create| create + 1)
}

/// Returns the number of points before the first one that only lets a thread run on.
fn expected(prefix: &Prefix) -> usize {
    let runs_on = |planned: &PlannedAction| *planned == PlannedAction::RunUntilBlocked;
    prefix.actions.iter().position(runs_on).unwrap_or(prefix.actions.len())
}
