//! When to keep the program in the middle of a run, so that others go on from there.
//!
//! What comes of a run does not depend on it; only time does. So it may be decided by how long runs take.

use crate::pool::Pool;
use anyhow::Result;
use std::time::Duration;
use unsnarl_model::{Op, Plan, Prefix};

/// Runs that take less are made from the start.
const WORTH: Duration = Duration::from_millis(2);

/// So often it is tried in vain.
const TRIES: u32 = 3;

pub(crate) struct Snapshots {
    enabled: bool,
    /// What a run takes, as of late. The first is expected to take long: if it does not, little is lost.
    run_time: Duration,
    /// After how many points the next plans differ.
    differ_after: usize,
    /// Runs that went on from a snapshot.
    pub(crate) resumed: u64,
    /// Why the program cannot be kept.
    pub(crate) refused: Option<String>,
    failed: u32,
}

impl Snapshots {
    pub(super) const fn new(enabled: bool) -> Self {
        Self { enabled, run_time: WORTH, differ_after: 0, resumed: 0, refused: None, failed: 0 }
    }

    /// These plans come next.
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

    /// Keeps the program where the first thread is created, which all plans come by; and where these plans begin to
    /// differ, if that is much later.
    pub(super) fn make(&mut self, pool: &mut Pool, plans: &[Plan]) -> Result<()> {
        let Some(plan) = plans.first().filter(|_| self.is_worth_it()) else { return Ok(()) };
        let start = forced(&plan.prefix);
        let places = [start, self.differ_after].into_iter().filter(|&points| points >= start && points > 0);
        for points in places {
            for answer in pool.each(|executor| executor.take_snapshot(plan, points)) {
                if let Err(reason) = answer? {
                    self.failed += 1;
                    if points == start {
                        self.refused = Some(reason);
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }

    /// So many runs one after the other took so long.
    pub(super) fn note(&mut self, elapsed: Duration, rounds: usize, resumed: usize) {
        self.run_time = elapsed / u32::try_from(rounds.max(1)).unwrap_or(u32::MAX);
        self.resumed += resumed as u64;
    }
}

/// How many points at the beginning are the same in all schedules: there is only one thread.
fn forced(prefix: &Prefix) -> usize {
    prefix.actions.iter().position(|action| action.op == Op::Create).map_or(0, |create| create + 1)
}

/// For how many points it is told what the threads do, and not that they run on.
fn expected(prefix: &Prefix) -> usize {
    let nowhere = |offset: u64| offset == u64::MAX;
    prefix.actions.iter().position(|action| nowhere(action.site.offset)).unwrap_or(prefix.actions.len())
}
