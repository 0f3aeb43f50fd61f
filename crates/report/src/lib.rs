//! What the user reads: pure functions from a trace to text or JSON.
//!
//! Where code and data get their names from is behind the [`Names`] trait: the program's files
//! ([`ProgramNames`]), or a few lines in a test.

#![forbid(unsafe_code)]

mod debugger;
mod divergence;
mod functions;
mod html;
mod interleaving;
mod json;
mod line;
mod look;
mod names;
mod needs;
mod objects;
mod outcome;
mod paths;
mod slice;
mod stack;
mod waits;
mod words;

pub use debugger::debugger_json;
pub use divergence::{divergence_json, divergence_text};
pub use html::html;
pub use interleaving::interleaving;
pub use json::{outcome_json, stats_json, warnings_json};
pub use look::Look;
pub use names::{Names, ProgramNames};
pub use needs::{needs_json, needs_text, preemption_text};
pub use objects::operation_text;
pub use outcome::{outcome_text, stats_text};
pub use slice::{
    Line, LineRace, SliceLine, SliceReport, UnknownCall, on_line, slice_dot, slice_json, slice_text,
};
