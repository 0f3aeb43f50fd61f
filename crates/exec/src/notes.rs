//! What is different here from other machines, for the user to know: a line for each thing that was done in another way.

use std::sync::{Mutex, PoisonError};

static NOTES: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Adds a note, unless it is there already.
pub(crate) fn add(note: String) {
    let mut notes = NOTES.lock().unwrap_or_else(PoisonError::into_inner);
    if !notes.contains(&note) {
        notes.push(note);
    }
}

/// The notes since the last call, in their order.
#[must_use]
pub fn take_notes() -> Vec<String> {
    std::mem::take(&mut NOTES.lock().unwrap_or_else(PoisonError::into_inner))
}
