//! Where runs begin: they are all the same until the program creates its first thread, so that is done once.

use crate::pool::Pool;
use anyhow::Result;
use unsnarl_model::Plan;

/// Keeps the program where its first thread is created.
#[derive(Default)]
pub(super) struct StartSnapshot {
    /// It does not allow that; then every run begins with main.
    refused: bool,
}

impl StartSnapshot {
    /// Gets ready for these plans.
    pub(super) fn keep(&mut self, pool: &mut Pool, plans: &[Plan]) -> Result<()> {
        // A plan that says nothing of what follows says what is the same in all.
        let common = plans.iter().find(|plan| plan.prefix.segments.len() == 1);
        let Some(plan) = common.filter(|_| !self.refused) else { return Ok(()) };
        let points = plan.prefix.segments[0].points as usize;
        for snapshot in pool.each(|executor| executor.take_snapshot(plan, points)) {
            self.refused |= snapshot?.is_err();
        }
        Ok(())
    }
}
