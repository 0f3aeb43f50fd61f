//! The traces of a search: the trace of a failure is on disk before the next run starts.
//!
//! The thread that made the run saves the trace at once, as a *draft* in the directory of traces. Runs are examined
//! later, in the order of their plans: the failure is replayed, and then its trace gets its final name. So names do not
//! depend on the number of parallel runs, and whatever kills the search leaves the draft or the final trace.

use crate::traces;
use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};
use unsnarl_model::{Signature, Trace};

/// The paths and names for the traces of a search.
pub(crate) struct Destination {
    /// The path that the user named for the first trace; the others have a number. Nothing is written there before the
    /// search ends, because the program could see it.
    pub(crate) requested: Option<PathBuf>,
    /// The number of traces that other searches of this command saved there.
    pub(crate) before: usize,
    /// The name of the traces, if the user named no path.
    pub(crate) name: String,
    /// A file beside which traces may be saved if their directory cannot be written.
    pub(crate) beside: Option<PathBuf>,
}

impl Destination {
    /// Returns the path of the nth failure of the search, if the user named the first: `bug.snarl`, `bug-2.snarl` …
    fn requested(&self, nth: usize) -> Option<PathBuf> {
        let first = self.requested.as_ref()?;
        let nth = self.before + nth;
        if nth == 0 {
            return Some(first.clone());
        }
        let stem = first.file_stem().unwrap_or_default().to_string_lossy();
        Some(first.with_file_name(format!("{stem}-{}.snarl", nth + 1)))
    }

    /// Saves a trace under a name that says that it was not replayed yet.
    fn save_draft(&self, trace: &Trace) -> anyhow::Result<PathBuf> {
        traces::save_new(trace, &format!("{}-found", self.name)).or_else(|error| match &self.beside {
            Some(file) if !is_special(file) => traces::save_beside(trace, file),
            _ => Err(error),
        })
    }
}

/// The location of a failure's trace.
#[derive(Debug)]
pub(crate) enum SavedTrace {
    /// At its final path.
    At(PathBuf),
    /// At its preliminary path, if it could be saved there; [`finish`] saves it where the user wants it.
    Draft(Option<PathBuf>),
    /// It could not be saved, for this reason.
    Not(String),
}

impl SavedTrace {
    /// Returns the path, if it was saved.
    pub(crate) fn path(&self) -> Option<&Path> {
        match self {
            Self::At(path) | Self::Draft(Some(path)) => Some(path),
            Self::Draft(None) | Self::Not(_) => None,
        }
    }
}

/// The traces that a search has saved.
pub(super) struct FoundTraces<'a> {
    /// `None` if nothing is to be saved.
    destination: Option<&'a Destination>,
    /// The drafts; `None` for a failure that has its final trace, or whose draft could not be saved.
    drafts: Mutex<HashMap<Signature, Option<PathBuf>>>,
}

impl<'a> FoundTraces<'a> {
    pub(super) fn new(destination: Option<&'a Destination>) -> Self {
        Self { destination, drafts: Mutex::default() }
    }

    fn drafts(&self) -> MutexGuard<'_, HashMap<Signature, Option<PathBuf>>> {
        self.drafts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Saves a trace unless there is one of the same failure. If that is impossible, it is tried again later.
    pub(super) fn keep(&self, trace: &Trace) {
        let Some(destination) = self.destination else { return };
        self.drafts().entry(trace.signature()).or_insert_with(|| destination.save_draft(trace).ok());
    }

    /// Saves the trace of a failure that was replayed.
    pub(super) fn confirm(&self, trace: &Trace) -> SavedTrace {
        let Some(destination) = self.destination else { return SavedTrace::Draft(None) };
        let draft = self.drafts().insert(trace.signature(), None).flatten();
        if destination.requested.is_some() {
            return SavedTrace::Draft(draft);
        }
        match (traces::try_save(trace, None, &destination.name), draft) {
            (Ok(path), draft) => {
                remove(draft);
                SavedTrace::At(path)
            }
            (Err(_), Some(draft)) => SavedTrace::At(draft),
            (Err(error), None) => SavedTrace::Not(format!("{error:#}")),
        }
    }

    /// Removes the trace of a failure that did not happen again.
    pub(super) fn discard(&self, signature: &Signature) {
        remove(self.drafts().remove(signature).flatten());
    }

    /// Returns the traces of failures that were not replayed because the search ended.
    pub(super) fn unchecked(&self) -> Vec<PathBuf> {
        let mut paths: Vec<PathBuf> = self.drafts().values_mut().filter_map(Option::take).collect();
        paths.sort();
        paths
    }

    /// Removes the traces of runs that are not a part of the search, because an earlier run ended it.
    pub(super) fn remove_unchecked(&self) {
        self.unchecked().into_iter().map(Some).for_each(remove);
    }
}

/// Saves the trace of the nth failure where the user wants it, or again where it is, after something was added to it.
pub(crate) fn finish(destination: &Destination, nth: usize, trace: &Trace, saved: &mut SavedTrace) {
    let draft = match &*saved {
        SavedTrace::At(path) => {
            // The trace that is there is complete, so an error does not matter.
            let _ = unsnarl_trace::save(trace, path);
            return;
        }
        SavedTrace::Draft(draft) => draft.clone(),
        SavedTrace::Not(_) => return,
    };
    let Some(path) = destination.requested(nth) else { return };
    *saved = match (traces::try_save(trace, Some(&path), &destination.name), draft) {
        (Ok(path), draft) => {
            remove(draft);
            SavedTrace::At(path)
        }
        (Err(error), Some(draft)) => {
            eprintln!("error: {error:#}; the trace is at {}", draft.display());
            SavedTrace::At(draft)
        }
        (Err(error), None) => SavedTrace::Not(format!("{error:#}")),
    };
}

/// Removes a draft. If that is impossible, a trace too many stays.
fn remove(draft: Option<PathBuf>) {
    let _ = draft.map(fs::remove_file);
}

fn is_special(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|there| !there.is_file())
}
