//! A snapshot at the first thread creation: all runs are the same up to there, so that part is run once.

use crate::pool::Pool;
use anyhow::Result;
use unsnarl_exec::SnapshotResult;
use unsnarl_model::Plan;

/// The snapshot at the creation of the program's first thread.
#[derive(Default)]
pub(super) struct StartSnapshot {
    /// The program does not allow snapshots, so every run starts from main.
    refused: bool,
}

impl StartSnapshot {
    /// Takes the snapshot for these plans.
    pub(super) fn keep(&mut self, pool: &mut Pool, plans: &[Plan]) -> Result<()> {
        // A plan with a single segment holds only the part that all plans share. Their random numbers may differ, and
        // most of them should be able to use the snapshot.
        let common = || plans.iter().filter(|plan| plan.prefix.segments.len() == 1);
        let alike = |plan: &Plan| common().filter(|other| other.entropy == plan.entropy).count();
        let common = common().max_by_key(|plan| alike(plan));
        let Some(plan) = common.filter(|_| !self.refused) else { return Ok(()) };
        let points = plan.prefix.segments[0].points as usize;
        for snapshot in pool.each(|executor| executor.take_snapshot(plan, points)) {
            self.refused |= snapshot? != SnapshotResult::Taken;
        }
        Ok(())
    }
}
