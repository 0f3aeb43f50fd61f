//! The best trace so far on disk, so that a simplification that is killed is not lost.

use crate::traces;
use anyhow::Result;
use std::{
    path::PathBuf,
    time::{Duration, Instant},
};
use unsnarl_model::{RunLimits, Trace};

/// The least time between two writes, and the part of the time that they may take: one in this many.
const INTERVAL: Duration = Duration::from_millis(250);
const SHARE: u32 = 10;

/// The file with the best trace so far.
pub(crate) struct BestTrace {
    requested: Option<PathBuf>,
    name: String,
    /// The path, once it was saved.
    path: Option<PathBuf>,
    /// The earliest time of the next write.
    next: Option<Instant>,
}

impl BestTrace {
    /// Creates a file that does not exist yet: at the requested path, or in the directory of traces under this name.
    pub(crate) const fn new(requested: Option<PathBuf>, name: String) -> Self {
        Self { requested, name, path: None, next: None }
    }

    /// Saves a better trace, unless the last one was saved just before. Its plan may have narrower limits than the
    /// original one. Errors are ignored: at the end it is saved again.
    pub(super) fn keep(&mut self, trace: &Trace, limits: RunLimits) {
        let begin = Instant::now();
        // A pipe gets one trace, the last.
        let is_special = |path: &PathBuf| std::fs::metadata(path).is_ok_and(|there| !there.is_file());
        if self.next.is_some_and(|next| begin < next) || self.requested.as_ref().is_some_and(is_special) {
            return;
        }
        let mut trace = trace.clone();
        trace.plan.limits = limits;
        let _ = self.save(&trace, traces::try_save);
        self.next = Some(Instant::now() + INTERVAL.max(begin.elapsed() * SHARE));
    }

    /// Saves the final trace and returns its path.
    pub(crate) fn finish(&mut self, trace: &Trace) -> Result<PathBuf> {
        self.save(trace, traces::save_as)
    }

    fn save(
        &mut self,
        trace: &Trace,
        save: fn(&Trace, Option<&std::path::Path>, &str) -> Result<PathBuf>,
    ) -> Result<PathBuf> {
        let target = self.path.as_ref().or(self.requested.as_ref());
        let path = save(trace, target.map(PathBuf::as_path), &self.name)?;
        self.path = Some(path.clone());
        Ok(path)
    }

    /// Returns where the best trace so far is.
    pub(super) fn path(&self) -> Option<&PathBuf> {
        self.path.as_ref()
    }
}
