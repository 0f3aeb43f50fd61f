//! Runs that later runs begin like.

use unsnarl_model::{ThreadId, ThreadIx};

/// The thread of each step of a run.
#[derive(Debug)]
pub(crate) struct RecordedRun {
    pub(crate) threads: Vec<ThreadId>,
    pub(crate) steps: Vec<ThreadIx>,
}
