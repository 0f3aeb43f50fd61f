//! Settings of runs that are not part of the plan.

use std::{
    sync::{Arc, atomic::AtomicBool},
    time::Instant,
};

/// Settings of runs that are not part of the plan.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Forward the program's output while it runs.
    pub echo: bool,
    /// Load the program once and fork it for each run; for many runs.
    pub serve: bool,
    /// Rewind processes that resume from a snapshot, so that each makes many runs. The result of a run does not depend
    /// on it.
    pub rewind: bool,
    /// There are idle processors: waiting for another process spins for a while before it sleeps.
    pub busy_waits: bool,
    /// Bytes of output at which a run is stopped; `None` for no limit.
    pub output_limit: Option<u64>,
    /// Bytes of private memory at which a run is stopped; `None` for no limit.
    pub memory_limit: Option<u64>,
    /// Ends the current run when set to true.
    pub interrupt: Option<Arc<AtomicBool>>,
    /// Deadline at which the current run is ended, like an interrupt.
    pub until: Option<Instant>,
    /// Backend of the program's threads. The result of a run does not depend on it.
    pub threads: ThreadBackend,
    /// The fate of files that runs change.
    pub files: FileChanges,
}

/// The fate of files that runs change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FileChanges {
    /// They are undone after each run, so that all runs find the same files.
    #[default]
    Undo,
    /// Like `Undo`, but not before the next run begins or the executor is dropped: something inspects them.
    UndoLater,
    /// They stay, as without unsnarl.
    Keep,
}

/// Backend of the program's threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ThreadBackend {
    /// All on one kernel thread: fast, and snapshots can be taken.
    #[default]
    Fibers,
    /// Each on its own kernel thread, of which one runs at a time.
    Kernel,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            echo: false,
            serve: false,
            rewind: true,
            busy_waits: false,
            output_limit: Some(64 << 20),
            memory_limit: Some(4 << 30),
            interrupt: None,
            until: None,
            threads: ThreadBackend::Fibers,
            files: FileChanges::Undo,
        }
    }
}
