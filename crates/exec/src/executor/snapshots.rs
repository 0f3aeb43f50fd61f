//! The executor's snapshots: states of the program in the middle of a run, from which runs resume.

use super::{Executor, not_attached};
use crate::{
    Error, SnapshotResult, ThreadBackend, collect,
    files::{self, NetworkView},
    memory::RunMode,
    process::{SnapshotProcess, SnapshotStart},
    snapshot::{self, Snapshot},
    streams::contents,
};
use std::{
    io::Seek,
    sync::atomic::Ordering,
    time::{Duration, Instant},
};
use unsnarl_model::{Op, Plan};
use unsnarl_wire::{CHILD, EndKind, FileRule, PEER_OUTSIDE, PLAN_RESERVE, PORT};

impl Executor {
    /// Keeps the program in its state after the first `points` points of this plan. Runs of plans with the same prefix
    /// resume from there, which pays off for plans with a long common prefix. The result of a run does not depend on
    /// it.
    ///
    /// # Errors
    /// Returns an error in the same cases as [`run`](Self::run).
    pub fn take_snapshot(&mut self, plan: &Plan, points: usize) -> Result<SnapshotResult, Error> {
        self.undo_changes();
        if self.settings.threads == ThreadBackend::Kernel {
            return Ok(SnapshotResult::Refused(
                "a fork copies only the calling kernel thread, so snapshots need fibers".into(),
            ));
        }
        if self.snapshots.first().is_some_and(|root| root.server_process.is_gone()) {
            self.discard_snapshot(0);
        }
        let first = snapshot::first_points(plan, points);
        // Snapshots that are no prefix of this plan are dropped.
        if !self.snapshots.first().is_some_and(|root| root.is_prefix_of(&first)) {
            self.drop_snapshots_from(0);
        }
        if self.snapshots.iter().any(|s| s.points() == points && s.is_prefix_of(&first)) {
            return Ok(SnapshotResult::Taken);
        }
        if self.server.as_ref().is_some_and(|server| server.free.is_empty()) {
            self.drop_snapshots_from(1);
        }
        let Some((number, channel)) = self.server.as_mut().and_then(|server| server.free.pop()) else {
            return Ok(SnapshotResult::Refused("the program is restarted for each run".into()));
        };
        let from_root = self.snapshots.first().is_some_and(|root| root.points() < points);
        let resumed = if from_root { self.snapshots[0].points() } else { 0 };
        let files = if self.view.rule() == FileRule::Keep { FileRule::Keep } else { FileRule::Stop };
        let mode = RunMode {
            serve: true,
            snapshot: number,
            resumed: resumed as u64,
            files,
            network: self.network.rule(),
            ..RunMode::default()
        };
        let permit = files::permit(self.network == NetworkView::Exclusive);
        self.memory.prepare(&snapshot::remaining_points(&first, resumed), mode, &self.program.path)?;
        self.is_silent = false;
        self.reset_streams(from_root.then_some(0))?;
        let left = |until: Instant| until.saturating_duration_since(Instant::now());
        let timeout =
            Duration::from_millis(plan.limits.millis).min(self.settings.until.map_or(Duration::MAX, left));
        let Self { snapshots, server: Some(server), .. } = &mut *self else {
            unreachable!("the channel is the server's")
        };
        let service = if from_root { snapshots[0].server_process.service() } else { server.service() };
        let started = match SnapshotProcess::start(service, (number, channel), timeout) {
            Err(Error::NotServing) if from_root => {
                self.discard_snapshot(0);
                return Ok(SnapshotResult::Refused("the process of the snapshot was killed".into()));
            }
            Err(Error::NotServing) => {
                drop(permit);
                if self.revive_server()? {
                    return self.take_snapshot(plan, points);
                }
                let error = Error::NotServing;
                let Self { streams, server, .. } = self;
                return Err(match server {
                    Some(server) => not_attached(error, &mut server.child, streams),
                    None => error,
                });
            }
            started => started?,
        };
        drop(permit);
        match started {
            SnapshotStart::Waiting(server_process) => {
                let room = self.memory.header().regions.total + PLAN_RESERVE;
                let streams = self.streams_so_far()?;
                let single_threaded = self.memory.threads().len() <= 2
                    && self.memory.events().last().is_some_and(|event| event.op() == Some(Op::Create));
                let uses_random_numbers = self.memory.header().first_random.load(Ordering::Relaxed) > 0;
                self.rewinding.reset();
                let state = (first, single_threaded, uses_random_numbers);
                self.snapshots.push(Snapshot::new(server_process, state, room, streams));
                Ok(SnapshotResult::Taken)
            }
            SnapshotStart::Ended { number, channel } => {
                server.free.push((number, channel));
                let end = &self.memory.header().end;
                let message = match end.kind {
                    EndKind::ChangesFiles
                        if [PORT, PEER_OUTSIDE].contains(&collect::message(end).as_str()) =>
                    {
                        "it has a socket open".to_owned()
                    }
                    EndKind::ChangesFiles if collect::message(end) == CHILD => {
                        "it has a child process".to_owned()
                    }
                    EndKind::ChangesFiles => "it has changed files".to_owned(),
                    _ => collect::message(end),
                };
                Ok(if message.is_empty() {
                    SnapshotResult::NotReached
                } else {
                    SnapshotResult::Refused(message)
                })
            }
        }
    }

    /// Ends the snapshots from index `from` on.
    pub(super) fn drop_snapshots_from(&mut self, from: usize) {
        self.rewinding.reset();
        let from = from.min(self.snapshots.len());
        for snapshot in self.snapshots.drain(from..).rev() {
            let free = snapshot.server_process.end();
            if let Some(server) = &mut self.server {
                server.free.push(free);
            }
        }
    }

    /// Removes a snapshot whose process was ended from outside.
    pub(super) fn discard_snapshot(&mut self, at: usize) {
        let free = self.snapshots.remove(at).server_process.into_lost_channel();
        if let Some(server) = &mut self.server {
            server.free.push(free);
        }
        self.drop_snapshots_from(0);
    }

    /// Returns the latest snapshot that is a prefix of this plan.
    pub(super) fn nearest(&self, plan: &Plan) -> Option<usize> {
        let useful = |&at: &usize| self.snapshots[at].is_prefix_of(plan);
        (0..self.snapshots.len()).filter(useful).max_by_key(|&at| self.snapshots[at].points())
    }

    fn streams_so_far(&self) -> Result<snapshot::StreamState, Error> {
        let failed = |cause| Error::System { action: "cannot read the streams", cause };
        Ok(snapshot::StreamState {
            read: (&self.streams.stdin).stream_position().map_err(failed)?,
            stdout: contents(&self.streams.stdout),
            stderr: contents(&self.streams.stderr),
        })
    }
}
